/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that forks and executes while its manager runs: the program that it becomes sees none of the library's
 * descriptors, and a child that keeps the manager is told so by every call. Exit 0 if that holds.
 */
#include <csireg/csireg.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = -3; /* "." and ".." and the directory itself */
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What the executed program counts. */
static int descriptors_after_exec(const char *self)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "count", (char *)NULL);
        _exit(255);
    }
    return wait_for(pid);
}

static int in_a_child(struct csireg_manager *manager)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct csireg_event *event;
        char *text;
        int bad = csireg_manager_next_event(manager, &event) != CSIREG_ERR_FORKED;
        bad += csireg_manager_status_json(manager, &text) != CSIREG_ERR_FORKED;
        bad += csireg_manager_stop(manager) != CSIREG_ERR_FORKED;
        csireg_manager_free(manager); /* does nothing here */
        _exit(bad);
    }
    return wait_for(pid);
}

/* A registration socket that nobody serves: the manager watches it and tries to connect. */
static int bind_socket(const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/a.sock", directory);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address)) perror("bind");
    return fd;
}

static int check(const char *self, const char *directory)
{
    struct csireg_options *options = NULL;
    struct csireg_manager *manager = NULL;
    struct csireg_error *error = NULL;
    int before = descriptors_after_exec(self);
    int rc = csireg_options_new(&options);
    if (rc == 0) rc = csireg_options_set_string(options, CSIREG_OPTION_NODE_NAME, "n1", &error);
    if (rc == 0) rc = csireg_options_set_bool(options, CSIREG_OPTION_LOCAL_ONLY, 1, &error);
    if (rc == 0) rc = csireg_options_set_string(options, CSIREG_OPTION_PLUGINS_REGISTRY_DIR, directory, &error);
    if (rc == 0) rc = csireg_manager_new(options, &manager, &error);
    if (rc == 0) rc = csireg_manager_start(manager, &error);
    if (rc != 0) fprintf(stderr, "%s: %s\n", csireg_code_name((enum csireg_code)rc), csireg_error_message(error));

    int bad = rc != 0;
    for (int i = 0; i < 20 && rc == 0; i++) {
        int now = descriptors_after_exec(self);
        if (now == before) continue;
        fprintf(stderr, "%d descriptors after exec, %d before the manager started\n", now, before);
        bad = 1;
    }
    if (rc == 0 && in_a_child(manager) != 0) {
        fprintf(stderr, "a call in a child did not answer FORKED\n");
        bad = 1;
    }
    csireg_manager_stop(manager);
    csireg_manager_free(manager);
    csireg_options_free(options);
    csireg_error_free(error);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "count") == 0) return count_descriptors();
    char directory[] = "/tmp/csireg-fork-XXXXXX", path[64];
    if (!mkdtemp(directory)) return 1;
    int fd = bind_socket(directory);
    int bad = check(argv[0], directory);
    close(fd);
    snprintf(path, sizeof path, "%s/a.sock", directory);
    unlink(path);
    rmdir(directory);
    return bad;
}
