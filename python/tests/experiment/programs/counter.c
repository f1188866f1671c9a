/* Counts operations with threads, all in one place under a lock or each in its own:
   counter shared|own THREADS SECONDS */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_THREADS = 1024, LINE = 128, WORK = 4 };

struct own {
    uint64_t done;
    char pad[LINE - sizeof(uint64_t)];
};

static uint64_t shared;
static _Atomic uint64_t next_ticket, served_ticket;
static atomic_int stop;
static int is_shared;

__attribute__((noinline)) static uint64_t work(uint64_t x) {
    for (int i = 0; i < WORK; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
    return x;
}

__attribute__((noinline)) static void count_shared(void) {
    /* Threads take turns, and whoever waits spins: that costs the more CPU time the more threads there are. */
    uint64_t ticket = atomic_fetch_add_explicit(&next_ticket, 1, memory_order_relaxed);
    while (atomic_load_explicit(&served_ticket, memory_order_acquire) != ticket) {
    }
    shared++;
    atomic_store_explicit(&served_ticket, ticket + 1, memory_order_release);
}

__attribute__((noinline)) static void count_own(struct own *own) {
    own->done++;
}

static void *run(void *argument) {
    struct own *own = argument;
    uint64_t x = 1, done = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        x = work(x);
        if (is_shared) {
            count_shared();
        } else {
            count_own(own);
        }
        done++;
    }
    own->done = done + (x == 0);
    return NULL;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: counter shared|own THREADS SECONDS\n");
        return 2;
    }
    is_shared = strcmp(words[1], "shared") == 0;
    int threads = atoi(words[2]);
    double seconds = atof(words[3]);
    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "counter: THREADS is 1 to %d\n", MOST_THREADS);
        return 2;
    }
    struct own *all = aligned_alloc(LINE, sizeof(struct own) * threads);
    memset(all, 0, sizeof(struct own) * threads);
    pthread_t started[MOST_THREADS];
    for (int i = 0; i < threads; i++) {
        pthread_create(&started[i], NULL, run, &all[i]);
    }
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
    atomic_store(&stop, 1);
    uint64_t done = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
        done += all[i].done;
    }
    printf("%.0f operations/s\n", (double)done / seconds);
    return 0;
}
