"""Sphinx's settings of the site. What it reads is what ``staging`` has written."""

project = "Steelyard"
html_title = "Steelyard"
extensions = ["myst_parser"]
root_doc = "index"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
# It would fetch every page that is found, which a policy and a browser without a server refuse.
html_show_search_summary = False
html_show_sourcelink = False
html_show_copyright = False
html_last_updated_fmt = None
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}
myst_heading_anchors = 4
nitpicky = True
# Highlighting of a block that is no such language is no error of the page.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "text"
