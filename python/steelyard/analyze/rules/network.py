"""Rules about interfaces, limits on them, and TCP.

Not here: saturated links and lost packets, which every run is checked for (``load``).
"""

from collections.abc import Sequence

from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.pressure.kernel_activity import Activity
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.pressure.traffic_shaping import Shaper
from steelyard.analyze.rules.findings import (
    Evidence,
    Finding,
    held_up,
    percent,
    rate_text,
    rule,
    threshold_rule,
    wait_share,
    without_wait,
)

LIMIT_RATIO = 0.80
WAIT_RATIO = 0.30
MOVED_BYTES_PER_S = 1e6
RETRANSMIT_RATIO = 0.01
OPENS_PER_S = 1000.0
SMALL_PACKET_BYTES = 200.0
PACKETS_PER_S = 50_000.0
LOOPBACK_BYTES_PER_S = 500e6
_MEGABIT = 125_000.0


def _limited(shapers: Sequence[Shaper]) -> str | None:
    """Return the interface whose limit is reached, None where none is."""
    for shaper in shapers:
        if shaper.used_ratio >= LIMIT_RATIO:
            return shaper.interface
    return None


@rule(
    "link-limited",
    "Is a rate limit on an interface reached?",
    area="network",
    explains="time",
    cause="link",
    threshold="the limit itself (tc); 80 % of it is convention: bursts are cut before the mean reaches it",
)
def _link_limited(shapers: Sequence[Shaper], target: TargetUse | None) -> Finding | None:
    shaper = next((limiter for limiter in shapers if limiter.used_ratio >= LIMIT_RATIO), None)
    if shaper is None:
        return None
    waits = target.held_by("network") if target else None
    detail = (
        "" if waits is None else f"; the program's threads wait {percent(waits)} of the time for the network"
    )
    return Finding(
        f"{shaper.interface} may send {shaper.limit_bytes_per_s / _MEGABIT:,.0f} Mbit/s"
        f" ({shaper.kind}) and sends"
        f" {percent(min(shaper.used_ratio, 1.0))} of that{detail}.",
        (
            Evidence(f"sent over the limit of {shaper.interface}", shaper.used_ratio, "ratio", LIMIT_RATIO),
            Evidence("packets dropped by the limit", shaper.drops_per_s, "1/s"),
            Evidence("packets delayed by the limit", shaper.delays_per_s, "1/s"),
        ),
        f"Raise the limit (`tc qdisc show dev {shaper.interface}`), or send less: compress, batch, cache.",
        min(0.98, 0.6 + 0.4 * min(1.0, shaper.used_ratio) * (waits if waits is not None else 0.5)),
        gain="in proportion to the limit, until another one is reached",
        part="network",
    )


@rule(
    "limit-drops",
    "Does a limit on an interface drop packets?",
    area="network",
    cause="link",
    threshold="one lost packet costs a retransmission timeout or a round trip (RFC 6298); one a"
    " second is convention",
)
def _limit_drops(shapers: Sequence[Shaper]) -> Finding | None:
    shaper = max(shapers, key=lambda limiter: limiter.drops_per_s, default=None)
    if shaper is None or shaper.drops_per_s < 1:
        return None
    return Finding(
        f"The limit on {shaper.interface} ({shaper.kind}) drops {rate_text(shaper.drops_per_s)} packets"
        " per second.",
        (Evidence(f"drops on {shaper.interface}", shaper.drops_per_s, "1/s", 1.0),),
        "Raise its queue (limit or latency) or its rate; look at retransmissions below.",
        0.5,
        gain="tail latency falls by a retransmission timeout (200 ms or more)",
    )


@rule(
    "waits-for-network",
    "Does the program wait for the network?",
    area="network",
    explains="time",
    threshold="convention: 30 % of the threads' time asleep in sockets, while bytes move",
)
def _waits(network: list[NetworkUse], shapers: Sequence[Shaper], target: TargetUse) -> Finding | None:
    share = target.held_by("network")
    if share < WAIT_RATIO or _limited(shapers) is not None:
        return None
    of_all = target.wait("network")
    busiest = max(
        network,
        key=lambda card: max(card.sent_bytes_per_s.value or 0.0, card.received_bytes_per_s.value or 0.0),
        default=None,
    )
    moved = 0.0
    if busiest is not None:
        moved = max(busiest.sent_bytes_per_s.value or 0.0, busiest.received_bytes_per_s.value or 0.0)
    if busiest is None or moved < MOVED_BYTES_PER_S:
        reason = "while almost no data moves: it waits for answers from other programs"
        step = "Characterize the program that answers; a trace of requests shows which call waits."
    else:
        reason = f"while {busiest.interface} moves {moved / 1e6:,.1f} MB/s: it waits for the network or the"
        " other end"
        step = (
            "Look at the sockets (`ss -ti`): rwnd_limited means the receiver, sndbuf_limited the send buffer,"
            " neither the network path."
        )
    return Finding(
        f"The program's threads sleep {percent(of_all)} of their time in sockets {reason}"
        f"{held_up(target, 'network', of_all)}.",
        (
            Evidence("threads' time asleep in sockets", of_all, "ratio"),
            Evidence("the same of their time without waits for a CPU", share, "ratio", WAIT_RATIO),
            Evidence("bytes of the busiest interface", moved, "bytes/s", MOVED_BYTES_PER_S),
        ),
        step,
        0.45 + 0.4 * share,
        gain=f"{without_wait(target, 'network', share)}, if nothing waited for it",
        explained_ratio=wait_share(target, "network", of_all),
        part="network" if moved >= MOVED_BYTES_PER_S else None,
        sure=False,
    )


@rule(
    "retransmissions",
    "Are TCP segments retransmitted?",
    area="network",
    cause="packets are lost",
    threshold="convention: 1 %; throughput falls with the square root of the loss (M. Mathis et al., 1997)",
)
def _retransmissions(activity: Activity) -> Finding | None:
    tcp = activity.tcp
    again, sent = tcp.get("retransmitted_segments", 0.0), tcp.get("sent_segments", 0.0)
    if again < 10 or not sent or again / sent < RETRANSMIT_RATIO:
        return None
    return Finding(
        f"{percent(again / sent)} of the TCP segments are retransmitted: packets are lost or late.",
        (
            Evidence("retransmitted segments", again / sent, "ratio", RETRANSMIT_RATIO),
            Evidence("retransmission timeouts", tcp.get("timeouts", 0.0), "1/s"),
        ),
        "Find the connections (`ss -ti`, retrans) and where packets are dropped: cards, limits, the path.",
        0.55,
        gain="tail latency falls by a retransmission timeout (200 ms or more)",
        part="network",
    )


threshold_rule(
    "accept-queue-full",
    "Are connections refused because the accept queue is full?",
    lambda activity: activity.tcp.get("listen_overflows") or None,
    ("accept queue overflows", "1/s", 0.0),
    "{rate} connections per second met a full accept queue: the clients retry after a second.",
    "Find the listener (`ss -lnt`, Recv-Q equal to Send-Q); raise its backlog and net.core.somaxconn,"
    " or accept faster.",
    0.6,
    gain="a second of latency for each such connection",
    area="network",
    threshold="any event: a refused client tries again after a second (RFC 6298)",
)


threshold_rule(
    "tcp-timeouts",
    "Do connections wait for retransmission timeouts?",
    lambda activity: activity.tcp.get("timeouts"),
    ("retransmission timeouts", "1/s", 1.0),
    "{rate} retransmission timeouts occur per second: each stops a connection for 200 ms or more.",
    "Look for lost final packets of responses and for incast; the report shows drops by card and limit.",
    0.5,
    gain="200 ms of latency for each such request",
    area="network",
    cause="packets are lost",
    threshold="convention: one per second; each stops a connection for 200 ms or more (RFC 6298,"
    " TCP_RTO_MIN)",
)


@rule(
    "socket-buffers",
    "Are packets dropped because a socket buffer is full?",
    area="network",
    threshold="convention: one per second; the application reads more slowly than packets arrive",
)
def _buffers(activity: Activity) -> Finding | None:
    tcp = activity.tcp
    names = ("udp_receive_buffer_errors", "udp_send_buffer_errors", "backlog_drops", "pruned")
    worst = max(names, key=lambda name: tcp.get(name, 0.0))
    if tcp.get(worst, 0.0) < 1:
        return None
    return Finding(
        f"{rate_text(tcp[worst])} times per second a socket buffer was full ({worst.replace('_', ' ')}).",
        (Evidence(worst.replace("_", " "), tcp[worst], "1/s", 1.0),),
        "Read faster (more threads, batches), or raise net.core.rmem_max and the socket's buffer.",
        0.5,
        gain="the lost packets",
    )


threshold_rule(
    "connection-churn",
    "Are many connections opened?",
    lambda activity: max(activity.tcp.get(f"{end}_opens", 0.0) for end in ("active", "passive")),
    ("connections opened", "1/s", OPENS_PER_S),
    "{value:,.0f} connections are opened per second.",
    "Find the client (`ss -s`, tcp_v4_connect in the profile); keep connections open, or pool them.",
    0.45,
    gain="one round trip and the CPU time per request that opens a connection",
    area="network",
    threshold="convention: 1,000 per second; a handshake takes a round trip and 20 to 50 µs of CPU"
    " time, TLS a millisecond",
)


@rule(
    "small-packets",
    "Is an interface busy with small packets?",
    area="network",
    threshold="convention: 50,000 per second of at most 200 bytes; each costs the kernel a microsecond or"
    " more",
)
def _packets(network: list[NetworkUse]) -> Finding | None:
    for card in network:
        packets = (card.received_packets_per_s.value or 0.0) + (card.sent_packets_per_s.value or 0.0)
        moved = (card.received_bytes_per_s.value or 0.0) + (card.sent_bytes_per_s.value or 0.0)
        if card.interface != "lo" and packets >= PACKETS_PER_S and moved / packets <= SMALL_PACKET_BYTES:
            return Finding(
                f"{card.interface} moves {packets:,.0f} packets per second of {moved / packets:.0f}"
                f" bytes:"
                " it is limited by their number, not by bandwidth.",
                (
                    Evidence("packets", packets, "1/s", PACKETS_PER_S),
                    Evidence("mean size", moved / packets, "bytes", SMALL_PACKET_BYTES),
                ),
                "Batch requests (pipelining, sendmmsg, GRO); check soft interrupts per CPU.",
                0.5,
                gain="about a microsecond of CPU time per avoided packet",
            )
    return None


@rule(
    "loopback-heavy",
    "Do processes move much data over the loopback interface?",
    area="network",
    threshold="convention: 500 MB/s; every byte is copied into and out of the kernel",
)
def _loopback(network: list[NetworkUse], has_load: bool, target: TargetUse | None) -> Finding | None:
    if has_load:
        return None
    card = next((card for card in network if card.interface == "lo"), None)
    moved = card.sent_bytes_per_s.value if card else None
    if moved is None or moved < LOOPBACK_BYTES_PER_S:
        return None
    whose = "" if target is None else " of this machine, other programs' bytes among them"
    return Finding(
        f"{moved / 1e6:,.0f} MB/s go over the loopback interface{whose}: each byte is copied twice and"
        f" passes the TCP stack.",
        (Evidence("loopback", moved, "bytes/s", LOOPBACK_BYTES_PER_S),),
        "Compare with a Unix socket or shared memory between the two processes.",
        0.4,
        gain="a third to half of the CPU time of that traffic",
        sure=False,
        blame="own" if target is None else "unknown",
    )
