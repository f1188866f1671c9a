"""The five views, as DCPerf's mix names them."""

from hashlib import blake2b

from django.conf import settings
from django.core.cache import cache as memcached
from django.http import HttpResponse, JsonResponse
from django.views.decorators.http import require_http_methods

from social import store
from social.footprint import work

PAGE = 20
TRAY = 24
PROFILE = 12


def user_of(account):
    """Return the number of the user behind the name of an account."""
    return int.from_bytes(blake2b(account.encode(), digest_size=8).digest(), "big") % settings.USERS


def health(request):
    """Answer once this worker can reach its store and its cache."""
    store.rows("user", 0)
    memcached.set("health", 1)
    return HttpResponse("ready" if memcached.get("health") == 1 else "no cache", content_type="text/plain")


def as_items(posts):
    """Return posts as the business logic takes them."""
    return [
        {"author": author, "id": post, "text": text, "likes": likes} for author, post, text, likes, _ in posts
    ]


def people(numbers):
    """Return the public profiles of users."""
    found = store.look_up("user", sorted({(number,) for number in numbers}))
    return {key[0]: {"name": row[1], "followers": row[3]} for key, row in found.items()}


def as_answer(view, user, posts, profiles):
    """Return the answer of a view that shows posts: ranked, each with its author."""
    items = as_items(posts)
    score = work(view, user, items)
    order = sorted(range(len(posts)), key=lambda place: (posts[place][3] * 31 + score) % 9973, reverse=True)
    shown = [
        {
            "author": profiles.get(posts[place][0]),
            "id": posts[place][1],
            "caption": posts[place][2],
            "likes": posts[place][3],
            "media": posts[place][4],
        }
        for place in order
    ]
    return JsonResponse({"user": user, "score": score, "posts": shown})


def feed_timeline(request, account):
    """Show the newest posts of those whom the user follows."""
    user = user_of(account)
    entries = store.rows("feed", user, PAGE)
    posts = store.look_up("post", [tuple(entry) for entry in entries])
    return as_answer(1, user, list(posts.values()), people(author for author, _ in entries))


def timeline(request, account):
    """Show a user's own posts."""
    user = user_of(account)
    return as_answer(2, user, store.rows("posts", user, PROFILE), people([user]))


@require_http_methods(["POST"])
def seen(request, account):
    """Remember which posts of the feed the user has seen."""
    user = user_of(account)
    entries = store.rows("feed", user, PAGE // 2)
    store.write("see", [(user, author, post) for author, post in entries])
    counter = f"seen:{user}"
    memcached.add(counter, 0)
    count = memcached.incr(counter, len(entries))
    posts = store.look_up("post", [tuple(entry) for entry in entries])
    return JsonResponse({"user": user, "seen": count, "score": work(3, user, as_items(posts.values()))})


def inbox(request, account):
    """Show the newest messages to the user."""
    user = user_of(account)
    messages = store.rows("inbox", user, PAGE)
    senders = people(sender for sender, _, _ in messages)
    items = [
        {"author": sender, "id": place, "text": text, "likes": len(text)} for sender, place, text in messages
    ]
    score = work(4, user, items)
    shown = [{"from": senders.get(item["author"]), "text": item["text"]} for item in items]
    return JsonResponse({"user": user, "score": score, "messages": shown})


def bundle_tray(request, account):
    """Show the current stories of those whom the user follows."""
    user = user_of(account)
    followees = store.look_up("follows", [(user,)]).get((user,), ([],))[0] or []
    bundles = store.look_up("bundle", [(followee,) for followee in followees[:TRAY]])
    authors = people(author for author, _, _ in bundles.values())
    items = [
        {"author": author, "id": author * 7 + views, "text": text, "likes": views}
        for author, text, views in bundles.values()
    ]
    score = work(5, user, items)
    shown = [{"author": authors.get(item["author"]), "views": item["likes"]} for item in items]
    return JsonResponse({"user": user, "score": score, "bundles": shown})
