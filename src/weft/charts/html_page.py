"""An HTML page that loads no other file, with the style sheet of all charts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Final

_START: Final = "<!doctype html>\n"

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b2330;--dim:#5d6979;--paper:#fbfcfe;--card:#fff;
--edge:#dbe2ea;--rule:#e9eef4;--grid:#e3e9f0;--hot:#c2410c;--good:#2e8b57;--goodbox:#d8f1e0;--back:#b7791f;
--backbox:#fdeecb;--bad:#c53030;--badbox:#fbdcdc;--wait:#6b5bd2;--waitbox:#e5e1fb;--off:#8592a3;
--offbox:#e8edf2;--busy:#2b6cb0;--busybox:#d6e8fa;--shade:0 1px 2px #1b233014,0 1px 6px #1b23300a}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf2;--dim:#95a3b5;--paper:#0f1319;--card:#161c25;
--edge:#2b3544;--rule:#222b38;--grid:#232d3a;--hot:#fb923c;--good:#5fc98c;--goodbox:#163524;
--back:#e6b34d;--backbox:#3d2e0d;--bad:#f08080;--badbox:#451c1e;--wait:#a99df5;--waitbox:#2a2550;
--off:#7e8b9c;--offbox:#252e3b;--busy:#7ab8f5;--busybox:#14304c;--shade:none}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
color:var(--ink);background:var(--paper);margin:0 auto;padding:2.2rem 1.5rem 4rem;max-width:1320px}
h1{font-size:1.65rem;line-height:1.25;margin:0;letter-spacing:-.01em}
h2{font-size:1.08rem;margin:2.4rem 0 .6rem}p{margin:.3rem 0}
.dim{color:var(--dim)}.n{white-space:nowrap}.r{text-align:right;font-variant-numeric:tabular-nums}
code,pre{font:12.5px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.card{background:var(--card);border:1px solid var(--edge);border-radius:10px;
box-shadow:var(--shade)}
.scroll{overflow:auto;max-height:85vh}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:.8rem;
margin:1.3rem 0}
.cards .card{padding:.75rem 1rem}.cards b{display:block;font-size:1.45rem;line-height:1.25;
font-weight:600;letter-spacing:-.01em}.cards span{color:var(--dim);font-size:.86rem}
.bars{padding:.9rem 1.1rem;display:grid;grid-template-columns:max-content 1fr max-content;
gap:.4rem .9rem;align-items:center}.bars i{display:block;height:14px;border-radius:4px;
background:var(--off)}.bars i.best{background:var(--good)}.bars i.took{background:var(--busy)}
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;
padding:.36rem .8rem}tr+tr>*,thead+tbody>tr:first-child>*{border-top:1px solid var(--rule)}
th{color:var(--dim);font-weight:500;font-size:.84rem;white-space:nowrap}
th.r{text-align:right}thead th{position:sticky;top:0;background:var(--card)}
td{max-width:44rem;overflow-wrap:anywhere}.id{font-weight:600;white-space:nowrap}
details summary{cursor:pointer}pre{margin:.4rem 0;padding:.6rem .8rem;background:var(--paper);
border:1px solid var(--rule);border-radius:6px;overflow:auto;max-height:22rem;white-space:pre-wrap}
.tag{display:inline-block;padding:0 .55em;border-radius:1em;font-size:.82rem;line-height:1.55;
white-space:nowrap;border:1px solid var(--tone);background:var(--tint);color:var(--ink)}
.bar{--tone:var(--busy);--tint:var(--busybox)}
.landed,.done,.passed{--tone:var(--good);--tint:var(--goodbox)}
.back,.gating,.blocked,.paused{--tone:var(--back);--tint:var(--backbox)}
.bad,.failed{--tone:var(--bad);--tint:var(--badbox)}
.wait,.parked,.person{--tone:var(--wait);--tint:var(--waitbox)}
.busy,.running,.ready{--tone:var(--busy);--tint:var(--busybox)}
.off,.waiting,.skipped,.cancelled,.evicted{--tone:var(--off);--tint:var(--offbox)}
.keys{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.2rem 0 .6rem;font-size:.88rem;
color:var(--dim)}.keys i{display:inline-block;width:.85em;height:.85em;border-radius:3px;
margin-right:.4em;vertical-align:-.08em;background:var(--tint);border:1px solid var(--tone)}
.keys i.hot{--tint:transparent;border-width:2px;--tone:var(--hot)}
.keys i.turns{border:0;border-top:2px dashed var(--wait);height:.3em;background:none}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0}
dt{color:var(--dim)}dd{margin:0}ul{margin:.3rem 0;padding-left:1.2rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:.8rem}
.charts .card{padding:.7rem .9rem .4rem}.charts svg{width:100%;height:auto}
.charts b{font-weight:600}
svg{display:block;font:11.5px system-ui,-apple-system,"Segoe UI",sans-serif}
svg text{fill:var(--ink)}svg .dim,svg text.dim{fill:var(--dim)}
.bar rect,.node rect{fill:var(--tint);stroke:var(--tone)}.node rect{stroke-width:1.2}
.bar.hot rect,.node.hot rect{stroke:var(--hot);stroke-width:2.2}
.node.person rect{stroke-dasharray:4 3}
.line{fill:none;stroke:var(--off);stroke-width:1.2;opacity:.6}
.line.hot{stroke:var(--hot);stroke-width:2.2;opacity:1}
.line.turns{stroke:var(--wait);stroke-dasharray:5 4}.dot{fill:var(--off)}
.grid{stroke:var(--grid);stroke-width:1;fill:none}.lane{stroke:var(--rule);fill:none}
.fell{stroke:var(--good);stroke-width:1;stroke-dasharray:2 3;opacity:.55}
.trunk{stroke:var(--good);stroke-width:2}.mark{fill:var(--card);stroke:var(--tone);stroke-width:2}
.own{fill:var(--busybox);stroke:var(--busy);stroke-width:1.3}.others{fill:var(--offbox)}
.limit{stroke:var(--bad);stroke-width:1.3;stroke-dasharray:5 4;fill:none}
.spent{fill:var(--goodbox);stroke:var(--good);stroke-width:1.3}
.lit rect{stroke-width:2.6;stroke:var(--hot)}tr.lit>*{background:var(--backbox)}
@media print{.scroll{max-height:none;overflow:visible}body{max-width:none;padding:0}}
"""

HIGHLIGHT: Final = """
for (const kind of ["mouseover", "mouseout"]) {
  document.addEventListener(kind, (event) => {
    const over = event.target.closest && event.target.closest("[data-t]");
    if (!over) return;
    for (const part of document.querySelectorAll("[data-t]"))
      if (part.dataset.t === over.dataset.t) part.classList.toggle("lit", kind === "mouseover");
  });
}
"""
"""A script that lights up all parts of a page that belong to the task under the pointer."""


def render_page(title: str, body: Iterable[str], script: str = "") -> str:
    """Return the page; `title` is escaped already.

    The page's policy keeps the browser from running any other script and from loading other files,
    even if text of a plan or an agent should slip through unescaped.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"; script-src 'sha256-{digest}'" if script else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{scripts}"
    return (
        f'{_START}<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + (f"\n<script>{script}</script>" if script else "")
        + "\n</body>\n</html>\n"
    )


def is_page(data: bytes) -> bool:
    return data[:100].lstrip().lower().startswith(_START.strip().encode())
