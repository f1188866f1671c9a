/* The first process of an emulated machine: places programs on NUMA nodes, has each scored by steelyard-probe, and
   powers the machine off.

   Built static by the test. What it prints for the test are lines that begin with "@": "@NAME PID" of each program, and
   "@process JSON" and "@cgroup JSON" of the probe's records; with "distances=hmat" on the kernel's command line "@hmat
   JSON" too, of processes by those distances. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define BIND 2 /* MPOL_BIND */

/* One program: the CPUs it runs on in turn, and its memory. A node of -1 ends a list. */
struct program {
    const char *name;
    int cpus[3];
    struct {
        int node;
        unsigned long bytes;
        int is_huge;
    } memory[3];
    int sleeps;
};

static void die(const char *what) {
    printf("@failed %s: %s\n", what, strerror(errno));
    fflush(stdout);
    reboot(RB_POWER_OFF);
    exit(1);
}

static void write_file(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        die(path);
    close(file);
}

static void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("sched_setaffinity");
}

static void take(int node, unsigned long bytes, int is_huge) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (is_huge ? MAP_HUGETLB : 0);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    unsigned long mask = 1UL << node;
    if (memory == MAP_FAILED)
        die("mmap");
    if (syscall(SYS_mbind, memory, bytes, BIND, &mask, sizeof mask * 8, 0) != 0)
        die("mbind");
    for (unsigned long place = 0; place < bytes; place += 4096)
        memory[place] = 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void be(const struct program *program, int ready, int go) {
    char none;
    int turn = 0;
    run_on(program->cpus[0]);
    for (int index = 0; program->memory[index].bytes; index++)
        take(program->memory[index].node, program->memory[index].bytes, program->memory[index].is_huge);
    if (write(ready, "r", 1) != 1)
        die("pipe");
    /* The end comes when all programs have their memory: until then it is taken without haste of others. */
    while (read(go, &none, 1) > 0)
        ;
    for (;;) {
        if (program->sleeps)
            pause();
        if (program->cpus[1] >= 0) {
            turn = !turn;
            run_on(program->cpus[turn]);
        }
        for (double end = now() + 0.1; now() < end;)
            ;
    }
}

static int start(const struct program *program, const int *go) {
    char path[100], text[20];
    int ready[2], child;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s", program->name);
    if (mkdir(path, 0755) != 0 || pipe(ready) != 0)
        die(path);
    child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/%s/cgroup.procs", program->name);
        snprintf(text, sizeof text, "%d", getpid());
        write_file(path, text);
        close(go[1]);
        be(program, ready[1], go[0]);
    }
    if (read(ready[0], text, 1) != 1)
        die("a program did not start");
    printf("@%s %d\n", program->name, child);
    return child;
}

static void score(const char *what, char **arguments) {
    int child;
    printf("@%s ", what);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execv(arguments[0], arguments);
        die(arguments[0]);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0)
        printf("@failed steelyard-probe: %d\n", status);
}

int main(int count, char **values) {
    /* PLACES is filled in by the test: one entry for each program. */
    static const struct program programs[] = {PLACES};
    const int programs_count = sizeof programs / sizeof *programs;
    char *arguments[64] = {"/steelyard-probe", "numa", "--json", "--duration", "1s", "--looks", "20"};
    char *by_group[64], texts[32][24];
    const int given = 7;
    int go[2];
    (void)count;
    (void)values;
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    if (mount("proc", "/proc", "proc", 0, NULL) != 0 || mount("sysfs", "/sys", "sysfs", 0, NULL) != 0 ||
        mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) != 0)
        die("mount");
    write_file("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory +hugetlb");
    if (pipe(go) != 0)
        die("pipe");
    memcpy(by_group, arguments, sizeof arguments);
    for (int index = 0; index < programs_count; index++) {
        snprintf(texts[index], sizeof *texts, "%d", start(&programs[index], go));
        arguments[given + 2 * index] = "--pid";
        arguments[given + 2 * index + 1] = texts[index];
        by_group[given + 2 * index] = "--cgroup";
        by_group[given + 2 * index + 1] = (char *)programs[index].name;
    }
    close(go[1]);
    score("process", arguments);
    score("cgroup", by_group);
    if (getenv("distances")) {
        arguments[given + 2 * programs_count] = "--distances";
        arguments[given + 2 * programs_count + 1] = getenv("distances");
        score(getenv("distances"), arguments);
    }
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
