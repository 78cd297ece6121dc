// SPDX-License-Identifier: Apache-2.0
// Answers that the tests of the page read.

export const kMarkdownSample = `# Rotating a vector

A rotation by the angle $\\theta$ is a **matrix product**, and it keeps lengths: $\\lVert Rv \\rVert = \\lVert v \\rVert$.

$$
R(\\theta) = \\begin{pmatrix} \\cos\\theta & -\\sin\\theta \\\\ \\sin\\theta & \\cos\\theta \\end{pmatrix}
$$

\`\`\`python
import math

def rotate(x: float, y: float, angle: float) -> tuple[float, float]:
    """Turns (x, y) around the origin."""
    c, s = math.cos(angle), math.sin(angle)
    return c * x - s * y, s * x + c * y
\`\`\`

| angle | cos | sin |
|:------|----:|----:|
| 0°    | 1   | 0   |
| 90°   | 0   | 1   |
| 180°  | -1  | 0   |

1. Write down the matrix.
2. Multiply; see [the definition](https://example.org/rotation).
   - It works for *any* angle.
   - [x] Checked with \`rotate(1, 0, math.pi)\`.

> A price of $5 or $6 is no formula.
`;

// What must be inert. Each line that could run something would set window.pwned.
export const kXssSample = `<img src=x onerror=alert(1)>

<img src="http://evil.example/leak.png" onerror="window.pwned=1">

<script>window.pwned=1</script>

<svg onload="window.pwned=1"><script>window.pwned=1</script></svg>

<svg><animate onbegin=window.pwned=1 attributeName=x dur=1s></svg>

<math><mtext><table><mglyph><style><img src=x onerror=window.pwned=1></style></mglyph></table></mtext></math>

<iframe srcdoc="<script>parent.pwned=1</script>"></iframe> and <a href="javascript:window.pwned=1">click</a>

<form action="http://evil.example/"><input name=a></form><style>body{display:none}</style>

[x](javascript:alert(1)) [y](JaVaScRiPt:window.pwned=1) [z](&#106;avascript:window.pwned=1) [tab](java&Tab;script:window.pwned=1)

[data](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [vb](vbscript:msgbox(1)) [rel](/v1/models) [blob](blob:http://127.0.0.1/x)

[user](https://bank.example@evil.example/) <javascript:window.pwned=1>

![pic](http://evil.example/track.png) ![d](data:image/svg+xml,<svg/onload=alert(1)>) ![j](javascript:window.pwned=1)

[ref]: javascript:window.pwned=1
[a reference][ref] and ![an image][ref]

$\\href{javascript:window.pwned=1}{x}$ and $\\includegraphics{http://evil.example/m.png}$ and $\\class{x" onclick="window.pwned=1}{y}$

$$\\text{<img src=x onerror=window.pwned=1>} \\style{position:fixed;background:url(http://evil.example/s)}{z}$$

$$\\def\\a{\\a\\a}\\a$$

\`<img src=x onerror=window.pwned=1>\`

\`\`\`html"><script>window.pwned=1</script>
<script>window.pwned=1</script>
\`\`\`

| <img src=x onerror=window.pwned=1> | [t](javascript:window.pwned=1) |
|---|---|
| a<br>b | <b onclick=window.pwned=1>c</b> |

The end of the test.
`;
