"""Web serving: pages of a social network, after CloudSuite's benchmark."""
