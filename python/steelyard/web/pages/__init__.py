"""Pages of the server, a module a part: each takes the context and an address, and returns a page's text."""
