"""What uWSGI serves. It loads the generated code once; connections are made by each worker."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "social.settings")

import generated  # noqa: F401
from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
