/* Keeps a mirror of the bytes and names that survive a loss of power.

   Loaded with LD_PRELOAD. Of the files below POWER_CUT_ROOT, the folder POWER_CUT_MIRROR holds:

     files/KEY    the bytes of a file, and the time of their last change, as of its last fsync
     folders/KEY  the names in a folder as of its last fsync, each as "TYPE KEY NAME\0"
     kept/KEY     a link to a file with mirrored bytes that has lost its last name, so that
                  nothing else gets its inode: a commit to a workspace knows files by inode

   KEY is an inode with the time of its birth, as inodes are used again. Both are replaced by a
   rename: a process may be killed at any instant. Writes need no wrapper, since bytes are
   copied at fsync. Not mirrored: O_SYNC, msync, and changes of mode. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEY 64
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void must(int holds, const char *what)
{
    if (!holds) {
        perror(what);
        abort();
    }
}

static const char *in_mirror(char *path, const char *folder, const char *key)
{
    snprintf(path, PATH_MAX, "%s/%s/%s", getenv("POWER_CUT_MIRROR"), folder, key);
    return path;
}

/* Write the key of a file or folder; return its mode, 0 if there is none. */
static int key_of(int folder, const char *name, char *key)
{
    struct statx found;
    unsigned wanted = STATX_BASIC_STATS | STATX_BTIME;
    if (statx(folder, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, wanted, &found))
        return 0;
    must(found.stx_mask & STATX_BTIME, "power_cut: the file system has no times of birth");
    snprintf(key, KEY, "%llu-%lld.%09u", (unsigned long long)found.stx_ino,
             (long long)found.stx_btime.tv_sec, found.stx_btime.tv_nsec);
    return found.stx_mode;
}

static void mirror_file(int file, FILE *copy)
{
    struct stat found;
    off_t at = 0;
    char again[KEY];
    /* Closing a descriptor of a database drops the locks of its process: none is opened for it. */
    int is_write_only = (fcntl(file, F_GETFL) & O_ACCMODE) == O_WRONLY;
    snprintf(again, KEY, "/proc/self/fd/%d", file);
    int source = is_write_only ? open(again, O_RDONLY | O_CLOEXEC) : file;
    must(!fstat(file, &found), "power_cut: fstat");
    while (at < found.st_size && sendfile(fileno(copy), source, &at, found.st_size - at) > 0)
        ;
    must(at >= found.st_size, "power_cut: sendfile");
    if (is_write_only)
        close(source);
    must(!futimens(fileno(copy), (struct timespec[]){found.st_atim, found.st_mtim}), "power_cut");
}

static void mirror_names(int folder, FILE *copy)
{
    DIR *names = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    char key[KEY];
    must(names != NULL, "power_cut: fdopendir");
    for (struct dirent *each; (each = readdir(names));) {
        int mode = key_of(folder, each->d_name, key);
        if (mode && strcmp(each->d_name, ".") && strcmp(each->d_name, ".."))
            fprintf(copy, "%c %s %s%c", S_ISDIR(mode) ? 'd' : 'f', key, each->d_name, 0);
    }
    closedir(names);
}

static int synced(int file, long number)
{
    const char *root = getenv("POWER_CUT_ROOT");
    char key[KEY], place[KEY], path[PATH_MAX], new[PATH_MAX];
    snprintf(place, KEY, "/proc/self/fd/%d", file);
    ssize_t length = readlink(place, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    size_t above = root ? strlen(root) : 0;
    if (!above || strncmp(path, root, above) || (path[above] && path[above] != '/'))
        return syscall(number, file);
    pthread_mutex_lock(&lock);
    int mode = key_of(file, "", key);
    snprintf(place, KEY, "new-%d", getpid());
    FILE *copy = fopen(in_mirror(new, ".", place), "we");
    must(mode && copy, "power_cut: the mirror");
    (S_ISDIR(mode) ? mirror_names : mirror_file)(file, copy);
    if (S_ISDIR(mode))
        must(!fflush(copy), "power_cut: fflush");
    in_mirror(path, S_ISDIR(mode) ? "folders" : "files", key);
    must(!syscall(SYS_renameat2, AT_FDCWD, new, AT_FDCWD, path, 0), "power_cut: rename");
    fclose(copy);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

/* Keep a file whose last name is about to go. */
static void keep(int folder, const char *name)
{
    struct stat found;
    char key[KEY], path[PATH_MAX];
    if (!getenv("POWER_CUT_MIRROR") || fstatat(folder, name, &found, AT_SYMLINK_NOFOLLOW))
        return;
    if (S_ISREG(found.st_mode) && found.st_nlink == 1 && key_of(folder, name, key)
        && !access(in_mirror(path, "files", key), F_OK))
        must(!linkat(folder, name, AT_FDCWD, in_mirror(path, "kept", key), 0), "power_cut: link");
}

int unlinkat(int folder, const char *name, int flags)
{
    pthread_mutex_lock(&lock);
    if (!(flags & AT_REMOVEDIR))
        keep(folder, name);
    int result = syscall(SYS_unlinkat, folder, name, flags), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    pthread_mutex_lock(&lock);
    if (!flags)
        keep(to, new);
    int result = syscall(SYS_renameat2, from, old, to, new, flags), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int from, const char *old, int to, const char *new)
{
    return renameat2(from, old, to, new, 0);
}

/* For the builder of images: the key of a path. */
int power_cut_key(const char *path, char *key) { return key_of(AT_FDCWD, path, key); }
