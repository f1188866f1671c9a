"""Pages of a social network as a browser gets them: HTML, and forms that change what others see.

Each reads the network as the views of DjangoBench do; what visitors write is stored beside it.
"""

import random
import time

from django.core import signing
from django.core.cache import cache as memcached
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from social import store
from social.footprint import work
from social.views import PAGE, PROFILE, TRAY, as_items, people, user_of

COMMENTS = 5
MEMBERS = 30
MOST_TEXT = 1000
"""Characters of a form's text that are kept."""
LATEST = 1 << 30
"""Numbers of what is written during a run begin here: newer than all that was there before."""


def now():
    """Return the number of something that is written now: milliseconds, which repeat after 12 days."""
    return LATEST + int(time.time() * 1e3) % LATEST


def someone(network):
    """Return any user."""
    return random.randrange(network)  # noqa: S311


def shown(view, user, posts):
    """Return posts as a page shows them, each with its author, its likes and its last comments."""
    profiles = people(author for author, *_ in posts)
    score = work(view, user, as_items(posts))
    counts = memcached.get_many([f"likes:{author}:{post}" for author, post, *_ in posts])
    comments = store.each("comments", [(author, post, COMMENTS) for author, post, *_ in posts])
    return score, [
        {
            "author": profiles.get(author, {}),
            "id": post,
            "text": text,
            "likes": likes + counts.get(f"likes:{author}:{post}", 0),
            "media": media,
            "comments": said,
        }
        for (author, post, text, likes, media), said in zip(posts, comments, strict=True)
    ]


def answer(request, name, user, **content):
    """Return a page, with what every page has: who looks at it, and the number of messages."""
    me = people([user]).get(user, {})
    return render(request, f"{name}.html", {"user": user, "me": me, **content})


def home(request, account):
    """Show the newest posts of those whom the user follows."""
    user = user_of(account)
    entries = store.rows("feed", user, PAGE)
    posts = store.look_up("post", [tuple(entry) for entry in entries])
    score, items = shown(6, user, list(posts.values()))
    return answer(request, "posts", user, title="Home", posts=items, score=score)


def wall(request, account):
    """Show the posts of one user."""
    user = user_of(account)
    score, items = shown(7, user, store.rows("posts", user, PROFILE))
    return answer(request, "posts", user, title="Wall", posts=items, score=score)


def messages(request, account):
    """Show the newest messages to the user."""
    user = user_of(account)
    rows = store.rows("inbox", user, PAGE)
    senders = people(sender for sender, _, _ in rows)
    items = [
        {"author": sender, "id": place, "text": text, "likes": len(text)} for sender, place, text in rows
    ]
    listed = [{"sender": senders.get(item["author"], {}), "text": item["text"]} for item in items]
    return answer(request, "messages", user, title="Messages", messages=listed, score=work(8, user, items))


def members(request, account):
    """Show some members, and which of them the user follows."""
    user = user_of(account)
    followees = set(following(user))
    first = user * 7919
    found = people((first + step * 104729) % store.users() for step in range(MEMBERS))
    items = [
        {"author": number, "id": number, "text": person["name"], "likes": person["followers"]}
        for number, person in found.items()
    ]
    listed = [{**person, "is_followed": number in followees} for number, person in found.items()]
    return answer(request, "members", user, title="Members", members=listed, score=work(9, user, items))


def following(user):
    """Return whom a user follows."""
    return store.look_up("follows", [(user,)]).get((user,), ([],))[0] or []


@require_http_methods(["POST"])
def login(request, account):
    """Sign the user in: a signed cookie, and the page that follows."""
    user = user_of(account)
    response = home(request, account)
    response.set_cookie("session", signing.dumps({"user": user, "since": int(time.time())}), httponly=True)
    return response


def typed(request):
    """Return the text of a form."""
    return request.POST.get("text", "")[:MOST_TEXT]


@require_http_methods(["POST"])
def post(request, account):
    """Publish a post: on the user's wall, and in the feeds of a few who follow."""
    user, number = user_of(account), now()
    store.write("publish", [(user, number, typed(request), 0, f"/media/{user}/{number}.jpg")])
    store.write("feed_entry", [(someone(store.users()), number, user, number) for _ in range(TRAY // 4)])
    return wall(request, account)


@require_http_methods(["POST"])
def comment(request, account):
    """Comment on a post of the feed."""
    user = user_of(account)
    for author, number in store.rows("feed", user, 1):
        store.write("comment", [(author, number, now(), user, typed(request))])
    return home(request, account)


@require_http_methods(["POST"])
def like(request, account):
    """Like a post of the feed."""
    user = user_of(account)
    for author, number in store.rows("feed", user, 1):
        name = f"likes:{author}:{number}"
        memcached.add(name, 0)
        memcached.incr(name)
        store.write("like", [(author, number, user)])
    return home(request, account)


@require_http_methods(["POST"])
def send(request, account):
    """Send a message to another member."""
    user = user_of(account)
    store.write("message", [(someone(store.users()), now(), user, typed(request))])
    return messages(request, account)


@require_http_methods(["POST"])
def befriend(request, account):
    """Follow another member, or no longer."""
    user, other = user_of(account), someone(store.users())
    followees = set(following(user)) ^ {other}
    store.write("follow", [(user, sorted(followees))])
    memcached.delete(f"follows:{user}")
    return members(request, account)
