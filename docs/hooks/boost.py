"""Tutorials before measurements."""
def on_page_markdown(markdown, page, **_):
    src = page.file.src_uri
    if src.startswith(("results/", "project/")) or src in ("log.md", "options.md"):
        page.meta.setdefault("search", {})["boost"] = 0.1
    elif src.startswith(("tutorials/", "howto/")):
        page.meta.setdefault("search", {})["boost"] = 3
