# Compares a few numbers with their Roman numerals.
failed=0
check() {
    actual=$(sh roman.sh "$1")
    if [ "$actual" = "$2" ]; then
        echo "ok   $1 = $2"
    else
        echo "FAIL $1: expected $2, got $actual"
        failed=1
    fi
}
check 1 I
check 3 III
check 1994 MCMXCIV
exit $failed
