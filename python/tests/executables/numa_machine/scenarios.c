/* The first process of an emulated machine: starts X and its co-runner Y by steelyard-exec in each scenario of a NUMA
   experiment, and tells what the kernel says of their threads and pages while both run.

   Built static by the test, which defines SCENARIOS as {{CPUs of X, memory node of X, CPUs of Y or ""}, ...}. What it prints
   for the test are lines that begin with "@": "@see.N ROLE PATH CONTENT" of files of /proc in scenario N, and "@file PATH
   CONTENT" of the files of /sys that a placement is made from. */

#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "guest.h"

#define BYTES (8UL << 20)
#define THREADS 2

static const char *scenarios[][3] = SCENARIOS;

/* A thread of X or Y: has memory of its own, touched by itself, and never ends. */
static void *work(void *unused) {
    volatile char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)unused;
    if (memory == MAP_FAILED)
        die("mmap");
    for (unsigned long turn = 0;; turn++)
        for (unsigned long at = 0; at < BYTES; at += 4096)
            memory[at] = (char)turn;
    return NULL;
}

static int run(const char *role) {
    pthread_t thread;
    prctl(PR_SET_NAME, role);
    for (int count = 1; count < THREADS; count++)
        if (pthread_create(&thread, NULL, work, NULL) != 0)
            die("pthread_create");
    work(NULL);
    return 0;
}

static pid_t start(const char *cpus, const char *node, const char *role) {
    pid_t child = fork();
    if (child == 0) {
        if (*node)
            execl("/steelyard-exec", "steelyard-exec", "--cpus", cpus, "--memory-nodes", node, "--", "/init", "run", role, NULL);
        else
            execl("/steelyard-exec", "steelyard-exec", "--cpus", cpus, "--", "/init", "run", role, NULL);
        die("steelyard-exec");
    }
    return child;
}

static void see(int scenario, const char *role, const char *path) {
    char line[4096];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        printf("@see.%d %s %s %s\n", scenario, role, path, line);
    }
    if (file)
        fclose(file);
}

static void see_process(int scenario, const char *role, const char *pid) {
    static const char *names[] = {"status", "stat", "comm"};
    char path[600];
    struct dirent *entry;
    DIR *tasks;
    snprintf(path, sizeof path, "/proc/%s/numa_maps", pid);
    see(scenario, role, path);
    snprintf(path, sizeof path, "/proc/%s/task", pid);
    tasks = opendir(path);
    while (tasks && (entry = readdir(tasks)))
        for (int name = 0; name < 3 && entry->d_name[0] != '.'; name++) {
            snprintf(path, sizeof path, "/proc/%s/task/%s/%s", pid, entry->d_name, names[name]);
            see(scenario, role, path);
        }
    if (tasks)
        closedir(tasks);
}

static void see_all(int scenario) {
    struct dirent *entry;
    DIR *folder = opendir("/proc");
    while (folder && (entry = readdir(folder))) {
        char path[600], name[32] = "";
        FILE *file;
        snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        if (fgets(name, sizeof name, file))
            name[strcspn(name, "\n")] = 0;
        fclose(file);
        if (strcmp(name, "x") == 0 || strcmp(name, "y") == 0)
            see_process(scenario, name, entry->d_name);
    }
    if (folder)
        closedir(folder);
}

int main(int count, char **values) {
    if (count == 3 && strcmp(values[1], "run") == 0)
        return run(values[2]);
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    if (mount("proc", "/proc", "proc", 0, NULL) != 0 || mount("sysfs", "/sys", "sysfs", 0, NULL) != 0)
        die("mount");
    for (int at = 0; at < (int)(sizeof scenarios / sizeof *scenarios); at++) {
        pid_t y = *scenarios[at][2] ? start(scenarios[at][2], "", "y") : 0;
        pid_t x = start(scenarios[at][0], scenarios[at][1], "x");
        sleep(2);
        see_all(at + 1);
        for (int one = 0; one < 2; one++) {
            pid_t pid = one ? x : y;
            if (pid && (kill(pid, SIGTERM) != 0 || waitpid(pid, NULL, 0) != pid))
                die("kill");
        }
    }
    tell_topology();
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
