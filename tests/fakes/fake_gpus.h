/* What both fake driver libraries agree on: how many GPUs, behind which switch, at which address, with which faults.
 *
 *   FAKE_GPUS    SWITCHESxGPUS, by default 2x10
 *   FAKE_WORLD   a file that says more: a first line "DRIVER CUDA LEVEL" (versions, and NVML's topology level of two GPUs that share
 *                no switch), then a line "SWITCH BUS UUID SERIAL" for each GPU, in the order of their buses. It stands above FAKE_GPUS.
 *   FAKE_FAULTS  a list as in "dropped:3>15 slow:7 held:0>5"; each fault is named where it acts
 *   FAKE_STATE   a file that the processes of one test share: which GPU copies now, which one raised an Xid
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 32

typedef struct {
    volatile int busy[MOST];
    volatile int xid[MOST];
} Shared;

typedef struct { int behind, bus; char uuid[48], serial[32]; } Identity;

static int switches = 2, per_switch = 10, known, cuda = 13000, level = 30;
static char driver[32] = "580.00";
static Identity identities[MOST];
static Shared *shared;

static void read_identities(const char *file) {
    FILE *world = file ? fopen(file, "r") : 0;
    if (!world) return;
    if (fscanf(world, "%31s %d %d", driver, &cuda, &level) == 3)
        while (known < MOST) {
            Identity *one = &identities[known];
            if (fscanf(world, "%d %x %47s %31s", &one->behind, (unsigned *)&one->bus, one->uuid, one->serial) != 4) break;
            known++;
        }
    fclose(world);
}

static void read_world(void) {
    static Shared own;
    const char *shape = getenv("FAKE_GPUS"), *file = getenv("FAKE_STATE");
    if (shape) sscanf(shape, "%dx%d", &switches, &per_switch);
    read_identities(getenv("FAKE_WORLD"));
    shared = &own;
    if (!file) return;
    int descriptor = open(file, O_RDWR | O_CREAT, 0600);
    if (descriptor < 0 || ftruncate(descriptor, sizeof(Shared))) return;
    void *map = mmap(0, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (map != MAP_FAILED) shared = map;
}

static int gpus(void) { return known ? known : switches * per_switch; }
static int switch_of(int gpu) { return known ? identities[gpu].behind : gpu / per_switch; }
static int bus_of(int gpu) { return known ? identities[gpu].bus : 0x12 + switch_of(gpu) * (per_switch + 3) + gpu % per_switch; }
static void uuid_of(int gpu, char *text, int length) {
    if (known) snprintf(text, length, "%s", identities[gpu].uuid);
    else snprintf(text, length, "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae%02x", gpu);
}
static void serial_of(int gpu, char *text, int length) {
    if (known) snprintf(text, length, "%s", identities[gpu].serial);
    else snprintf(text, length, "13204200%05d", gpu);
}

/* The numbers behind a fault, as in name:a>b>c: how many there are from the one whose first number is `a` (and second `b`). */
static int fault(const char *name, int a, int b, int found[4]) {
    const char *at = getenv("FAKE_FAULTS");
    size_t length = strlen(name);
    while (at && *at) {
        if (!strncmp(at, name, length) && at[length] == ':') {
            int given[4] = {-1, -1, -1, -1};
            int count = sscanf(at + length + 1, "%d>%d>%d>%d", given, given + 1, given + 2, given + 3);
            if (count > 0 && given[0] == a && (b < 0 || given[1] == b)) {
                if (found) memcpy(found, given, sizeof given);
                return count;
            }
        }
        at = strchr(at, ' ');
        if (at) at++;
    }
    return 0;
}
