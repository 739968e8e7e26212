//! Characters that HTML writes as names and numbers.

/// Named entities that pages use; others stay as they are written. Source: the HTML standard.
const ENTITIES: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ensp", " "),
    ("emsp", " "),
    ("thinsp", " "),
    ("shy", ""),
    ("zwj", ""),
    ("zwnj", ""),
    ("ndash", "–"),
    ("mdash", "—"),
    ("hellip", "…"),
    ("middot", "·"),
    ("bull", "•"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("sbquo", "‚"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bdquo", "„"),
    ("laquo", "«"),
    ("raquo", "»"),
    ("lsaquo", "‹"),
    ("rsaquo", "›"),
    ("copy", "©"),
    ("reg", "®"),
    ("trade", "™"),
    ("deg", "°"),
    ("para", "¶"),
    ("sect", "§"),
    ("times", "×"),
    ("divide", "÷"),
    ("plusmn", "±"),
    ("minus", "−"),
    ("le", "≤"),
    ("ge", "≥"),
    ("ne", "≠"),
    ("asymp", "≈"),
    ("infin", "∞"),
    ("larr", "←"),
    ("rarr", "→"),
    ("uarr", "↑"),
    ("darr", "↓"),
    ("harr", "↔"),
    ("rArr", "⇒"),
    ("lArr", "⇐"),
    ("check", "✓"),
    ("euro", "€"),
    ("pound", "£"),
    ("yen", "¥"),
    ("cent", "¢"),
    ("micro", "µ"),
    ("frac12", "½"),
    ("frac14", "¼"),
    ("frac34", "¾"),
    ("sup2", "²"),
    ("sup3", "³"),
    ("auml", "ä"),
    ("ouml", "ö"),
    ("uuml", "ü"),
    ("Auml", "Ä"),
    ("Ouml", "Ö"),
    ("Uuml", "Ü"),
    ("szlig", "ß"),
    ("eacute", "é"),
    ("egrave", "è"),
    ("ecirc", "ê"),
    ("agrave", "à"),
    ("aacute", "á"),
    ("acirc", "â"),
    ("ccedil", "ç"),
    ("iacute", "í"),
    ("oacute", "ó"),
    ("ocirc", "ô"),
    ("uacute", "ú"),
    ("ntilde", "ñ"),
    ("aring", "å"),
    ("oslash", "ø"),
    ("aelig", "æ"),
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("lambda", "λ"),
    ("mu", "μ"),
    ("pi", "π"),
    ("sigma", "σ"),
    ("lbrace", "{"),
    ("rbrace", "}"),
    ("lbrack", "["),
    ("rbrack", "]"),
    ("lpar", "("),
    ("rpar", ")"),
    ("num", "#"),
    ("colon", ":"),
    ("comma", ","),
    ("period", "."),
    ("sol", "/"),
    ("bsol", "\\"),
    ("lowbar", "_"),
    ("grave", "`"),
    ("vert", "|"),
    ("excl", "!"),
    ("quest", "?"),
    ("equals", "="),
    ("plus", "+"),
    ("ast", "*"),
    ("percnt", "%"),
    ("dollar", "$"),
    ("commat", "@"),
    ("semi", ";"),
    ("Tab", "\t"),
    ("NewLine", "\n"),
];

/// Bytes of an entity that are looked at, with the signs around its name.
const LONGEST: usize = 33;

/// Text with its entities decoded.
pub(super) fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let is_part = |byte: u8| byte == b'&' || byte == b'#' || byte.is_ascii_alphanumeric();
        let end = after.bytes().take(LONGEST).position(|byte| !is_part(byte));
        let end = end.filter(|end| after.get(*end..).is_some_and(|end| end.starts_with(';')));
        let meant = end.and_then(|end| entity(after.get(1..end)?));
        if let (Some(meant), Some(end)) = (meant, end) {
            out.push_str(&meant);
            rest = after.get(end + 1..).unwrap_or_default();
        } else {
            out.push('&');
            rest = after.get(1..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<String> {
    let Some(number) = name.strip_prefix('#') else {
        return ENTITIES.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    let c = char::from_u32(code).filter(|c| *c == '\n' || *c == '\t' || !c.is_control());
    Some(c.unwrap_or(char::REPLACEMENT_CHARACTER).to_string())
}
