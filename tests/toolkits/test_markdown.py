"""Pages as markdown, also those that were made to cost a reader dearly."""

import pytest

from toolcrib.toolkits.markdown import markdown


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<ul><li>a<li>b<ol><li>c</ol></ul>", "- a\n- b\n  1. c"),
        ("<pre>  a\n  b</pre>", "```\n  a\n  b\n```"),
        ("<a href='javascript:x'>n</a><br>&lt;b&gt;", "n\n<b>"),
        ("<style>x</style><p>a</p><p>b</p></div></a>", "a\n\nb"),
        ("<table><tr><td>1<td>2</table>", "| 1 | 2"),
        ("<h2>T</h2>x<hr>y", "## T\n\nx\n\n---\n\ny"),
    ],
)
def test_html_becomes_markdown(html: str, expected: str) -> None:
    assert markdown(html) == expected


@pytest.mark.parametrize(
    "piece", ["<div>", "<ul><li>", "<", "<a ", "<!--", "</", '<a href="', "<svg>", "<script></script"]
)
def test_hostile_html_takes_no_longer_than_its_size(piece: str) -> None:
    """A parser that goes back takes minutes for some of these."""
    assert markdown("x" + piece * 50_000).startswith("x")
