/* The least work of accepting a file: reads the body of each POST, writes it to a file of a folder, syncs file and
 * folder, answers 202, and removes the file after its answer. One blocking connection at a time.
 * receive FOLDER; prints its port.   cc -O2 -o receive receive.c */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char buffer[65536];

static void must(int holds, const char *what) {
  if (!holds) {
    perror(what);
    exit(1);
  }
}

/* Sends a whole text. */
static void answer(int client, const char *text) {
  must(write(client, text, strlen(text)) == (ssize_t)strlen(text), "write");
}

/* Takes one request and its file; `folder` is a descriptor for the fsync of the folder. */
static void take(int client, int folder, const char *path) {
  size_t count = 0;
  char *body = NULL;
  while (!body && count < sizeof buffer - 1) {
    ssize_t more = read(client, buffer + count, sizeof buffer - 1 - count);
    if (more <= 0) return;
    count += more;
    buffer[count] = 0;
    body = strstr(buffer, "\r\n\r\n");
  }
  char *length = body ? strcasestr(buffer, "\r\nContent-Length:") : NULL;
  if (!length || length > body) return answer(client, "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\n\r\n");
  long rest = atol(length + strlen("\r\nContent-Length:"));
  char *expects = strcasestr(buffer, "\r\nExpect:");
  if (expects && expects < body) answer(client, "HTTP/1.1 100 Continue\r\n\r\n");
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  must(file >= 0, path);
  body += 4;
  ssize_t piece = buffer + count - body;
  for (;;) {
    must(write(file, body, piece) == piece, "write");
    rest -= piece;
    if (rest <= 0) break;
    body = buffer;
    piece = read(client, buffer, sizeof buffer);
    must(piece > 0, "the body is cut short");
  }
  must(fsync(file) == 0 && fsync(folder) == 0, "fsync");
  close(file);
  answer(client, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

int main(int count, char **words) {
  must(count == 2, "receive FOLDER");
  char path[4096];
  snprintf(path, sizeof path, "%s/received", words[1]);
  int folder = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  must(folder >= 0, words[1]);
  int server = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  must(bind(server, (struct sockaddr *)&address, size) == 0 && listen(server, 8) == 0, "listen");
  must(getsockname(server, (struct sockaddr *)&address, &size) == 0, "getsockname");
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  for (;;) {
    int client = accept(server, NULL, NULL);
    must(client >= 0, "accept");
    take(client, folder, path);
    close(client);
    unlink(path);
  }
}
