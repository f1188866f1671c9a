/* What the first processes of emulated machines share: how they fail, and what a placement is made from, written as lines
   "@file PATH CONTENT". */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

static void die(const char *what) {
    printf("@failed %s: %s\n", what, strerror(errno));
    fflush(stdout);
    reboot(RB_POWER_OFF);
    exit(1);
}

static void tell(const char *path) {
    char line[256];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strstr(path, "meminfo") == NULL || strstr(line, "MemTotal"))
            printf("@file %s %s\n", path, line);
    }
}

static void tell_topology(void) {
    static const char *names[] = {"core_cpus_list", "physical_package_id"}, *of_nodes[] = {"cpulist", "distance", "meminfo"};
    char path[200];
    tell("/sys/devices/system/cpu/online");
    for (int cpu = 0; cpu < 4; cpu++)
        for (int name = 0; name < 2; name++) {
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, names[name]);
            tell(path);
        }
    for (int node = 0; node < 2; node++)
        for (int name = 0; name < 3; name++) {
            snprintf(path, sizeof path, "/sys/devices/system/node/node%d/%s", node, of_nodes[name]);
            tell(path);
        }
}
