// Files that are chosen and not yet with Perch, in the browser's database, so that a reload does not lose
// them.

const STORE = "files";

/** Keeps the bytes of a request. */
export const keepFile = (id, file) => inStore("readwrite", (store) => store.put(file, id));
/** The bytes of a request, or nothing. */
export const readFile = (id) => inStore("readonly", (store) => store.get(id)).catch(() => undefined);
/** Forgets the bytes of a request. */
export const forgetFile = (id) => inStore("readwrite", (store) => store.delete(id)).catch(() => {});

async function inStore(mode, use) {
  const database = await resultOf(opened());
  try {
    return await resultOf(use(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

function opened() {
  const request = indexedDB.open("perch", 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE);
  return request;
}

function resultOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
