#include "FaultyDisk.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

enum { FAULTS = 64, FOLDER = 256 };

struct fault {
  int is_armed;
  char folder[FOLDER];
  int operations;
  long left;
  int code;
  int stays;
  int has_struck;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault faults[FAULTS];

// One open file, over SQLite's own.
struct file {
  sqlite3_file base;
  char folder[FOLDER];
  sqlite3_file *real;
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs vfs;

// Returns the code with which the operation fails, or SQLITE_OK.
static int struck(const struct file *file, int operation) {
  int code = SQLITE_OK;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < FAULTS && code == SQLITE_OK; i++) {
    struct fault *fault = &faults[i];
    if (!fault->is_armed || !(fault->operations & operation)) continue;
    if (strcmp(fault->folder, file->folder) != 0) continue;
    if (fault->left > 0 && --fault->left == 0) {
      fault->has_struck = 1;
      code = fault->code;
    } else if (fault->left == 0 && fault->stays) {
      code = fault->code;
    }
  }
  pthread_mutex_unlock(&lock);
  return code;
}

#define REAL(f) (((struct file *)(f))->real)
#define STRIKE(f, operation)                         \
  do {                                               \
    int code = struck((struct file *)(f), operation); \
    if (code != SQLITE_OK) return code;              \
  } while (0)

static int file_close(sqlite3_file *f) { return REAL(f)->pMethods ? REAL(f)->pMethods->xClose(REAL(f)) : SQLITE_OK; }
static int file_read(sqlite3_file *f, void *to, int size, sqlite3_int64 at) {
  STRIKE(f, FAULTY_READ);
  return REAL(f)->pMethods->xRead(REAL(f), to, size, at);
}
static int file_write(sqlite3_file *f, const void *from, int size, sqlite3_int64 at) {
  int code = struck((struct file *)f, FAULTY_WRITE);
  if (code == SQLITE_OK) return REAL(f)->pMethods->xWrite(REAL(f), from, size, at);
  REAL(f)->pMethods->xWrite(REAL(f), from, size / 2, at);
  return code;
}
static int file_truncate(sqlite3_file *f, sqlite3_int64 size) {
  STRIKE(f, FAULTY_TRUNCATE);
  return REAL(f)->pMethods->xTruncate(REAL(f), size);
}
static int file_sync(sqlite3_file *f, int flags) {
  STRIKE(f, FAULTY_SYNC);
  return REAL(f)->pMethods->xSync(REAL(f), flags);
}
static int file_size(sqlite3_file *f, sqlite3_int64 *size) { return REAL(f)->pMethods->xFileSize(REAL(f), size); }
static int file_lock(sqlite3_file *f, int level) {
  STRIKE(f, FAULTY_LOCK);
  return REAL(f)->pMethods->xLock(REAL(f), level);
}
static int file_unlock(sqlite3_file *f, int level) { return REAL(f)->pMethods->xUnlock(REAL(f), level); }
static int file_check_lock(sqlite3_file *f, int *is) { return REAL(f)->pMethods->xCheckReservedLock(REAL(f), is); }
static int file_control(sqlite3_file *f, int what, void *with) {
  return REAL(f)->pMethods->xFileControl(REAL(f), what, with);
}
static int file_sector(sqlite3_file *f) { return REAL(f)->pMethods->xSectorSize(REAL(f)); }
static int file_traits(sqlite3_file *f) { return REAL(f)->pMethods->xDeviceCharacteristics(REAL(f)); }
static int shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **to) {
  STRIKE(f, FAULTY_MAP);
  return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, to);
}
static int shm_lock(sqlite3_file *f, int from, int count, int flags) {
  if (flags & SQLITE_SHM_LOCK) STRIKE(f, FAULTY_LOCK);
  return REAL(f)->pMethods->xShmLock(REAL(f), from, count, flags);
}
static void shm_barrier(sqlite3_file *f) { REAL(f)->pMethods->xShmBarrier(REAL(f)); }
static int shm_unmap(sqlite3_file *f, int remove) { return REAL(f)->pMethods->xShmUnmap(REAL(f), remove); }
static int file_fetch(sqlite3_file *f, sqlite3_int64 at, int size, void **to) {
  return REAL(f)->pMethods->xFetch(REAL(f), at, size, to);
}
static int file_unfetch(sqlite3_file *f, sqlite3_int64 at, void *what) {
  return REAL(f)->pMethods->xUnfetch(REAL(f), at, what);
}

static const sqlite3_io_methods methods = {
    3,           file_close,  file_read,       file_write,   file_truncate, file_sync,   file_size,
    file_lock,   file_unlock, file_check_lock, file_control, file_sector,   file_traits, shm_map,
    shm_lock,    shm_barrier, shm_unmap,       file_fetch,   file_unfetch};

static int vfs_open(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *f, int flags, int *out) {
  (void)v;
  struct file *file = (struct file *)f;
  file->real = (sqlite3_file *)(file + 1);
  file->folder[0] = 0;
  const char *slash = name ? strrchr(name, '/') : NULL;
  if (slash && slash - name < FOLDER) {
    memcpy(file->folder, name, slash - name);
    file->folder[slash - name] = 0;
  }
  int code = real_vfs->xOpen(real_vfs, name, file->real, flags, out);
  f->pMethods = code == SQLITE_OK ? &methods : NULL;
  return code;
}

int faulty_disk_install(void) {
  real_vfs = sqlite3_vfs_find(NULL);
  if (!real_vfs) return SQLITE_ERROR;
  vfs = *real_vfs;
  vfs.zName = "faulty";
  vfs.pNext = NULL;
  vfs.szOsFile = (int)sizeof(struct file) + real_vfs->szOsFile;
  vfs.xOpen = vfs_open;
  return sqlite3_vfs_register(&vfs, 1);
}

int faulty_disk_arm(const char *folder, int operations, long number, int code, int stays) {
  int name = -1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < FAULTS && name < 0; i++) {
    if (faults[i].is_armed || strlen(folder) >= FOLDER) continue;
    faults[i] = (struct fault){.is_armed = 1, .operations = operations, .left = number, .code = code, .stays = stays};
    strcpy(faults[i].folder, folder);
    name = i;
  }
  pthread_mutex_unlock(&lock);
  return name;
}

int faulty_disk_heal(int fault) {
  pthread_mutex_lock(&lock);
  int has_struck = faults[fault].has_struck;
  faults[fault].is_armed = 0;
  pthread_mutex_unlock(&lock);
  return has_struck;
}
