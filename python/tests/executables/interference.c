/* A victim and a hog for the live demonstration of the guard.
 *
 *   interference victim FILE KIB   does operations on one CPU for ever and counts them in FILE, as Prometheus text.
 *                                  An operation is 20,000 dependent loads in a buffer of KIB: what it costs in CPU time
 *                                  follows from where the buffer lies, in the caches or in memory.
 *   interference hog MIB           changes each line of MIB, on every CPU: it takes cache, bandwidth and CPU time.
 *   interference steady MS         works MS of every 100 ms, in registers: it takes CPU time and no cache.
 *
 * Each ends with its parent. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, LOADS = 20000, PERIOD_MS = 100, STREAMS = 8 };

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *must(void *memory) {
    if (memory == NULL) {
        perror("interference");
        exit(3);
    }
    return memory;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    /* Where it may not, it runs anywhere: the figures are noisier then, not wrong. */
    (void)sched_setaffinity(0, sizeof set, &set);
}

/* One ring through all lines of the buffer, in an order that no prefetcher guesses (Sattolo's shuffle). */
static char *ring(size_t lines) {
    uint32_t *next = must(malloc(lines * sizeof *next));
    for (size_t i = 0; i < lines; i++) next[i] = (uint32_t)i;
    uint64_t state = 88172645463325252u;
    for (size_t i = lines - 1; i > 0; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t other = state % i;
        uint32_t kept = next[i];
        next[i] = next[other], next[other] = kept;
    }
    char *buffer = must(aligned_alloc(4096, (lines * LINE + 4095) / 4096 * 4096));
    for (size_t i = 0; i < lines; i++) memcpy(buffer + i * LINE, &next[i], sizeof *next);
    free(next);
    return buffer;
}

static void tell(const char *path, unsigned long operations) {
    char partial[4096];
    snprintf(partial, sizeof partial, "%s.partial", path);
    FILE *file = must(fopen(partial, "w"));
    fprintf(file, "# TYPE operations_total counter\noperations_total %lu\n", operations);
    if (fclose(file) != 0 || rename(partial, path) != 0) exit(3);
}

static void victim(const char *path, size_t kib) {
    pin(0);
    const char *buffer = ring(kib * 1024 / LINE);
    uint32_t at = 0;
    unsigned long operations = 0;
    for (double reported_s = 0;;) {
        for (int load = 0; load < LOADS; load++) memcpy(&at, buffer + (size_t)at * LINE, sizeof at);
        operations += at != UINT32_MAX;
        double time = now_s();
        if (time - reported_s >= 0.02) tell(path, operations), reported_s = time;
    }
}

static void hog(size_t mib) {
    size_t bytes = mib << 20;
    for (int cpu = 1; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pin(cpu);
            break;
        } else if (cpu == 1) pin(0);
    /* Not by copying: memcpy of so much writes past the caches, and takes less of them from others. */
    volatile char *buffer = must(calloc(1, bytes));
    size_t apart = bytes / STREAMS;
    for (;;)
        for (size_t at = 0; at < apart; at += LINE)
            for (size_t stream = 0; stream < STREAMS; stream++) buffer[at + stream * apart]++;
}

static void steady(int busy_ms) {
    for (;;) {
        double begun = now_s();
        while (now_s() - begun < busy_ms / 1e3) continue;
        usleep((PERIOD_MS - busy_ms) * 1000);
    }
}

int main(int count, char **words) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (count == 4 && strcmp(words[1], "victim") == 0) victim(words[2], strtoul(words[3], NULL, 10));
    if (count == 3 && strcmp(words[1], "hog") == 0) hog(strtoul(words[2], NULL, 10));
    if (count == 3 && strcmp(words[1], "steady") == 0) steady(atoi(words[2]));
    return 2;
}
