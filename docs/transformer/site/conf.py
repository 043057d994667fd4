"""Sphinx's configuration of the handbook; `build.py` gives the language and the source tree."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE))

project = "clearhead"
version = tomllib.loads((_HERE.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
language = "en"  # build.py overrides it
html_title = "The Transformer, number by number"
extensions = ["myst_parser", "handbook"]
nitpicky = True
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_dmath_double_inline = True

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["handbook.css", "figures.css"]
html_js_files = ["handbook.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False
html_show_search_summary = False  # it is fetched, which a page from the disk may not do; search.js has its own
html_permalinks_icon = "#"
pygments_style = "friendly"
pygments_dark_style = "github-dark"

_SANS = (
    '"Source Sans 3", "Source Sans Pro", system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", '
    '"PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", '
    "sans-serif"
)
_MONO = (
    'ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", '
    '"Noto Sans Mono CJK SC", monospace'
)
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "handbook-sans": _SANS,
        "font-stack": _SANS,
        "font-stack--headings": _SANS,
        "font-stack--monospace": _MONO,
        "color-brand-primary": "#1f5fa8",
        "color-brand-content": "#1f5fa8",
        "color-brand-visited": "#5b4b9a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#8ab8f0",
        "color-brand-content": "#8ab8f0",
        "color-brand-visited": "#b8a9ee",
    },
}
