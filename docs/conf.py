"""How Sphinx builds the site: CONTRIBUTING.md has the command."""

import re
from pathlib import Path

from sphinx.application import Sphinx

import torch_histo

DOCS = Path(__file__).parent

project = "torch_histo"
author = "the torch_histo authors"
project_copyright = author
version = release = torch_histo.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
myst_heading_anchors = 4
exclude_patterns = ["conf.py"]

# Docstrings write code between single backticks.
default_role = "code"
highlight_language = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Returns"]  # whose first words are no type
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 70

html_theme = "pydata_sphinx_theme"
html_title = "torch_histo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# Pages without others below them need no room for a list of these.
html_sidebars = {name: [] for name in ("index", "start", "performance", "api")}
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")
FROM_ABOVE = {
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
    "security": "SECURITY.md",
}
"""Pages that are files of the folder above."""


LISTED = re.compile(r"\| \[(?:[\w/]+/)?([\w.]+)\]\(\.\./(examples/[\w/.]+)\).* \| (.*) \|")
LANGUAGES = {".py": "python", ".cpp": "cpp"}


def listed_examples() -> dict[str, list[tuple[str, str, str]]]:
    """The name, the path and the description of each file that docs/examples.md lists, by the page
    that shows it."""
    found: dict[str, list[tuple[str, str, str]]] = {"recipes": [], "programs": []}
    for name, path, what in LISTED.findall((DOCS / "examples.md").read_text()):
        if Path(path).suffix in LANGUAGES:
            found["recipes" if "recipes" in path else "programs"].append((name, path, what))
    return found


def show_examples(app: Sphinx, name: str, source: list[str]) -> None:
    """Fills a page with the code of examples."""
    title = source[0].partition("\n")[0]
    sections = [
        f"## {file}\n\n{what[0].upper()}{what[1:]}. From [{path}](../{path}):\n\n"
        f"```{{literalinclude}} ../{path}\n:language: {LANGUAGES[Path(path).suffix]}\n```\n"
        for file, path, what in listed_examples().get(name, ())
    ]
    if sections:
        source[0] = "\n".join([f"{title}\n\n{LINK_TO_EXAMPLES}\n", *sections])
        app.env.note_dependency(str(DOCS / "examples.md"))


LINK_TO_EXAMPLES = "[Examples](examples.md) is a list of what is on this page. Tests run all of it."


def read_from_above(app: Sphinx, name: str, source: list[str]) -> None:
    """Shows the file with its links as they are from here."""

    def moved(link: re.Match[str]) -> str:
        target = link[2].removeprefix("docs/") if link[2].startswith("docs/") else f"../{link[2]}"
        return f"[{link[1]}]({target}{link[3] or ''})"

    if name in FROM_ABOVE:
        source[0] = LINK.sub(moved, (DOCS.parent / FROM_ABOVE[name]).read_text())


def change_links_out_of_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    """A link to a folder of the repository becomes its text; tables elsewhere are downloads. An
    example is shown on a page of the site."""
    folder = Path(app.env.doc2path(name)).parent
    pages = {
        (DOCS.parent / path).resolve(): f"{page}.md#{file.replace('.', '')}"
        for page, files in listed_examples().items()
        for file, path, _ in files
        if page != name
    }

    def changed(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target in pages and folder == DOCS:
            return f"[{link[1]}]({pages[target]})"
        if target.is_dir():
            return link[1]
        if target.suffix == ".md" and not target.is_relative_to(DOCS):
            return f"[{link[1]}](path:{link[2]})"
        return link[0]

    source[0] = LINK.sub(changed, source[0])


def without_unknown_keywords(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str, returned: str
) -> tuple[str, str] | None:
    """Keywords that a function only takes to name the right one in its error are not shown."""
    if signature is None:
        return None
    return re.sub(r", \*\*unknown: [^,)]+", "", signature), returned


def setup(app: Sphinx) -> None:
    app.connect("source-read", read_from_above)
    app.connect("source-read", show_examples)
    app.connect("source-read", change_links_out_of_the_site)
    app.connect("autodoc-process-signature", without_unknown_keywords)
