# Prints a number from 1 to 3999 as a Roman numeral.
number=$1
result=
for pair in 1000:M 500:D 100:C 50:L 10:X 5:V 1:I; do
    value=${pair%%:*}
    digit=${pair#*:}
    while [ "$number" -ge "$value" ]; do
        result=$result$digit
        number=$((number - value))
    done
done
echo "$result"
