# What Doxygen reads instead of a header: its plain comments, as documentation.
/^ *\/\/ ---*/b
/^}/b
# Ways of writing that Doxygen would take for its own.
\|^ *//|s|\([#@]\)|\\\1|g
\|^ *//|s|<\([a-z]\)|\\<\1|g
\|^ *//|s|et al\. |et al.\\ |g
1s|^// |/// \\file\n/// |
s|^\( *\)// |\1/// |
s|^\( *\)//$|\1///|
s|\([;,{)}]\)  *// |\1 ///< |
# A member of somebody else's namespace, of which nobody looks for a page.
s|^struct fmt::formatter<|struct formatter<|
