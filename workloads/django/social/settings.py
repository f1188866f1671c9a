"""Settings of the application; addresses and sizes come from the environment."""

import os
from pathlib import Path

SECRET_KEY = "a benchmark on the loopback address has no secret"  # noqa: S105
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", os.environ.get("SOCIAL_ADDRESS", "127.0.0.1")]
ROOT_URLCONF = "social.urls"
INSTALLED_APPS: list[str] = []
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "social.middleware.close_connection",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).resolve().parent / "templates"],
    }
]
APPEND_SLASH = False
USE_TZ = True
USE_I18N = False
LOGGING_CONFIG = None
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache",
        "LOCATION": os.environ["SOCIAL_MEMCACHED"],
        "TIMEOUT": None,
        "OPTIONS": {"no_delay": True, "use_pooling": False},
    }
}
CASSANDRA_HOST, _, CASSANDRA_PORT = os.environ["SOCIAL_CASSANDRA"].rpartition(":")
USERS = int(os.environ["SOCIAL_USERS"])
FUNCTION_CALLS = int(os.environ.get("SOCIAL_FUNCTION_CALLS", "150"))
"""Generated functions that a request calls itself; those call others."""
