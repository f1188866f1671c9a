"""What belongs to the MediaWiki benchmark."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.stack.recipe import Packages, Recipe

DECLARATION = Declaration(
    name="mediawiki",
    title="MediaWiki",
    doc="a wiki: nginx, PHP-FPM, MediaWiki, MariaDB and memcached",
    benchmark="steelyard.benchmarks.mediawiki.benchmark:MediaWiki",
    headline=(
        "requests_per_s",
        "response_p50_ns",
        "response_p95_ns",
        "response_p99_ns",
        "errors",
        "server_cpu_ratio",
        "server_cpu_user_ratio",
        "server_cpu_system_ratio",
        "cpu_per_request_ns",
        "memcached_hit_ratio",
        "queries_per_request",
        "load_cpu_share_ratio",
    ),
    metric_names={
        "server_cpu_ratio": "server CPU",
        "queries_per_request": "database queries per request",
        "load_cpu_share_ratio": "load's share of the CPU time",
        "ready_s": "start to first page",
    },
    suites=("dcperf",),
    order=4,
    sections="steelyard.benchmarks.mediawiki.section:sections",
    recipe=Recipe(
        packages=Packages(
            apt=(
                *("mediawiki", "nginx-light", "mariadb-server", "memcached"),
                *("php-fpm", "php-cli", "php-mysql", "php-memcached", "php-apcu"),
                *("php-intl", "php-mbstring", "php-xml"),
            ),
            dnf=(
                *("mediawiki", "nginx", "mariadb-server", "memcached"),
                *("php-fpm", "php-cli", "php-mysqlnd", "php-pecl-memcached", "php-pecl-apcu"),
                *("php-intl", "php-mbstring", "php-xml", "php-opcache"),
            ),
        ),
        # PHP-FPM, whose name may hold its version, and PHP's modules are looked for by ``servers``.
        programs=("nginx", "php", "mariadbd", "mariadb-install-db", "mariadb", "memcached"),
        disk_bytes=1 << 30,
    ),
)
