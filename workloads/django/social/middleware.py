"""Middleware of the application."""


def close_connection(get_response):
    """Tell clients that each connection serves one request, as the socket of uWSGI does."""

    def respond(request):
        response = get_response(request)
        response["Connection"] = "close"
        return response

    return respond
