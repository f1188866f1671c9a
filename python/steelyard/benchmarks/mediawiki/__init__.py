"""MediaWiki: a wiki with its web server, application server, cache and database, after DCPerf's benchmark."""
