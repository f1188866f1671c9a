"""Cassandra as the application's store, memcached before it.

Connections are made at the first request of a worker: they do not survive a fork.
"""

from functools import cache

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import tuple_factory
from django.conf import settings
from django.core.cache import cache as memcached

SCHEMA = (
    "CREATE KEYSPACE IF NOT EXISTS social"
    " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE IF NOT EXISTS social.users (id int PRIMARY KEY, name text, bio text, followers int)",
    "CREATE TABLE IF NOT EXISTS social.follows (user int PRIMARY KEY, followees frozen<list<int>>)",
    "CREATE TABLE IF NOT EXISTS social.posts (author int, id int, text text, likes int, media text,"
    " PRIMARY KEY (author, id)) WITH CLUSTERING ORDER BY (id DESC)",
    "CREATE TABLE IF NOT EXISTS social.feed (user int, place int, author int, post int,"
    " PRIMARY KEY (user, place)) WITH CLUSTERING ORDER BY (place DESC)",
    "CREATE TABLE IF NOT EXISTS social.inbox (user int, place int, sender int, text text,"
    " PRIMARY KEY (user, place)) WITH CLUSTERING ORDER BY (place DESC)",
    "CREATE TABLE IF NOT EXISTS social.bundles (author int PRIMARY KEY, text text, views int)",
    "CREATE TABLE IF NOT EXISTS social.seen (user int, author int, post int,"
    " PRIMARY KEY (user, author, post))",
    "CREATE TABLE IF NOT EXISTS social.comments (author int, post int, id int, writer int, text text,"
    " PRIMARY KEY ((author, post), id)) WITH CLUSTERING ORDER BY (id DESC)",
    "CREATE TABLE IF NOT EXISTS social.likes (author int, post int, liker int,"
    " PRIMARY KEY ((author, post), liker))",
)
STATEMENTS = {
    "user": "SELECT id, name, bio, followers FROM social.users WHERE id = ?",
    "follows": "SELECT followees FROM social.follows WHERE user = ?",
    "post": "SELECT author, id, text, likes, media FROM social.posts WHERE author = ? AND id = ?",
    "posts": "SELECT author, id, text, likes, media FROM social.posts WHERE author = ? LIMIT ?",
    "feed": "SELECT author, post FROM social.feed WHERE user = ? LIMIT ?",
    "inbox": "SELECT sender, place, text FROM social.inbox WHERE user = ? LIMIT ?",
    "bundle": "SELECT author, text, views FROM social.bundles WHERE author = ?",
    "see": "INSERT INTO social.seen (user, author, post) VALUES (?, ?, ?)",
    "comments": "SELECT writer, text FROM social.comments WHERE author = ? AND post = ? LIMIT ?",
    "comment": "INSERT INTO social.comments (author, post, id, writer, text) VALUES (?, ?, ?, ?, ?)",
    "like": "INSERT INTO social.likes (author, post, liker) VALUES (?, ?, ?)",
    "publish": "INSERT INTO social.posts (author, id, text, likes, media) VALUES (?, ?, ?, ?, ?)",
    "feed_entry": "INSERT INTO social.feed (user, place, author, post) VALUES (?, ?, ?, ?)",
    "message": "INSERT INTO social.inbox (user, place, sender, text) VALUES (?, ?, ?, ?)",
    "follow": "INSERT INTO social.follows (user, followees) VALUES (?, ?)",
}
REQUEST_TIMEOUT_S = 10.0


def connect(host, port):
    """Return a session with Cassandra."""
    profile = ExecutionProfile(request_timeout=REQUEST_TIMEOUT_S, row_factory=tuple_factory)
    cluster = Cluster(
        [host],
        port=int(port),
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        schema_metadata_enabled=False,
        token_metadata_enabled=False,
        connect_timeout=REQUEST_TIMEOUT_S,
    )
    return cluster.connect()


@cache
def session():
    """Return this worker's session."""
    return connect(settings.CASSANDRA_HOST, settings.CASSANDRA_PORT)


@cache
def statement(name):
    """Return a prepared statement."""
    return session().prepare(STATEMENTS[name])


def rows(name, *values):
    """Return the rows of a query."""
    return session().execute(statement(name), values).all()


def each(name, parameters):
    """Return the rows of a query for each of `parameters`, asked all at the same time."""
    futures = [session().execute_async(statement(name), values) for values in parameters]
    return [future.result().all() for future in futures]


def users():
    """Return how many users the network has."""
    return settings.USERS


def write(name, parameters):
    """Execute a statement for each of `parameters`, all at the same time."""
    futures = [session().execute_async(statement(name), values) for values in parameters]
    for future in futures:
        future.result()


def look_up(kind, keys):
    """Return the first row of query `kind` for each of `keys`, tuples of values.

    Rows come from memcached, those that it lacks from Cassandra; what Cassandra does not have is left out.
    """
    names = {f"{kind}:{':'.join(map(str, key))}": key for key in keys}
    found = memcached.get_many(names)
    absent = [name for name in names if name not in found]
    futures = [(name, session().execute_async(statement(kind), names[name])) for name in absent]
    fetched = {}
    for name, future in futures:
        first = future.result().one()
        if first is not None:
            fetched[name] = first
    if fetched:
        memcached.set_many(fetched)
    found.update(fetched)
    return {key: found[name] for name, key in names.items() if name in found}
