/* The first process of an emulated machine: has steelyard-exec bind the memory of programs, and tells what became of it.

   Built static by the test. What it prints for the test are lines that begin with "@": "@NAME mode=M nodes=MASK cpus=N
   pages=N0,N1" of each program, "@exit.NAME CODE" of each steelyard-exec, and "@file PATH CONTENT" of the files of /sys
   that a placement is made from. */

#define _GNU_SOURCE
#include <errno.h>
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
#include <unistd.h>

#include "guest.h"

#define BYTES (16UL << 20)

/* A program under test: what the kernel says of its memory, and of a mapping that it fills. */
static int look(const char *name) {
    int mode = -1;
    unsigned long mask[64] = {0}, pages[2] = {0, 0};
    char line[4096], start[32];
    cpu_set_t set;
    FILE *maps;
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    memset(memory, 1, BYTES);
    if (syscall(SYS_get_mempolicy, &mode, mask, sizeof mask * 8, NULL, 0) != 0)
        die("get_mempolicy");
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        die("sched_getaffinity");
    maps = fopen("/proc/self/numa_maps", "r");
    if (!maps)
        die("numa_maps");
    snprintf(start, sizeof start, "%lx ", (unsigned long)memory);
    while (fgets(line, sizeof line, maps))
        for (int node = 0; node < 2 && strncmp(line, start, strlen(start)) == 0; node++) {
            char word[8], *found;
            snprintf(word, sizeof word, " N%d=", node);
            found = strstr(line, word);
            pages[node] = found ? strtoul(found + strlen(word), NULL, 10) : 0;
        }
    printf("@%s mode=%d nodes=%lu cpus=%d pages=%lu,%lu\n", name, mode, mask[0], CPU_COUNT(&set), pages[0], pages[1]);
    return 0;
}

static int run(char **arguments) {
    int status = 0, child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        execv(arguments[0], arguments);
        die(arguments[0]);
    }
    if (waitpid(child, &status, 0) != child)
        die("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int count, char **values) {
    if (count == 3 && strcmp(values[1], "look") == 0)
        return look(values[2]);
    if (count == 3 && strcmp(values[1], "pass") == 0)
        return run((char *[]){"/init", "look", values[2], NULL});
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    if (mount("proc", "/proc", "proc", 0, NULL) != 0 || mount("sysfs", "/sys", "sysfs", 0, NULL) != 0)
        die("mount");
    printf("@exit.bound %d\n",
           run((char *[]){"/steelyard-exec", "--cpus", "0-1", "--memory-nodes", "1", "--", "/init", "look", "bound", NULL}));
    printf("@exit.inherited %d\n", run((char *[]){"/steelyard-exec", "--cpus", "2-3", "--memory-nodes", "0", "--", "/init",
                                                  "pass", "inherited", NULL}));
    printf("@exit.free %d\n",
           run((char *[]){"/steelyard-exec", "--cpus", "2-3", "--", "/init", "look", "free", NULL}));
    printf("@exit.absent %d\n", run((char *[]){"/steelyard-exec", "--memory-nodes", "7", "--", "/init", "look", "absent", NULL}));
    tell_topology();
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
