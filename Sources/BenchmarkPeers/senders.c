/* Senders that post one after the other, each on a connection of its own, and how long each of their requests took.
 * wrk would not do: it adds requests that it never made to its percentiles, for those that a slow answer kept it from.
 * senders PORT PATH USER SENDERS SECONDS; prints the requests a second and percentiles in ms.
 * cc -O2 -o senders senders.c */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SENDERS = 1024, TEXT = 350 };

struct sender {
  int socket;
  double asked_at; /* s */
};

static struct sender senders[MOST_SENDERS];
static char request[2048];
static size_t request_length;
static float *times; /* ms, of each answered request */
static size_t answered, room;

static void must(int holds, const char *what) {
  if (!holds) {
    perror(what);
    exit(1);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void ask(struct sender *sender) {
  sender->asked_at = now();
  must(write(sender->socket, request, request_length) == (ssize_t)request_length, "write");
}

/* Takes an answer, which comes in one piece, and asks again. */
static void take(struct sender *sender) {
  char answer[16384];
  ssize_t length = read(sender->socket, answer, sizeof answer - 1);
  must(length > 0, "read");
  answer[length] = 0;
  if (strncmp(answer, "HTTP/1.1 202 ", 13) != 0) {
    fprintf(stderr, "%s\n", answer);
    exit(1);
  }
  if (answered == room) {
    room = room ? room * 2 : 65536;
    times = realloc(times, room * sizeof *times);
    must(times != NULL, "realloc");
  }
  times[answered++] = (now() - sender->asked_at) * 1e3;
  ask(sender);
}

static int compare(const void *left, const void *right) {
  float a = *(const float *)left, b = *(const float *)right;
  return a < b ? -1 : a > b;
}

int main(int count, char **words) {
  if (count != 6) {
    fprintf(stderr, "usage: senders PORT PATH USER SENDERS SECONDS\n");
    return 2;
  }
  int number = atoi(words[4]);
  double seconds = atof(words[5]);
  must(number > 0 && number <= MOST_SENDERS && seconds > 0, "SENDERS or SECONDS");
  char text[TEXT + 1];
  memset(text, 'b', TEXT);
  text[TEXT] = 0;
  request_length = snprintf(request, sizeof request,
                            "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nPerch-User: %s\r\n"
                            "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{\"message\":\"%s\"}",
                            words[2], words[3], TEXT + 14, text);
  int events = epoll_create1(EPOLL_CLOEXEC);
  must(events >= 0, "epoll_create1");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < number; i++) {
    senders[i].socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(senders[i].socket, (struct sockaddr *)&address, sizeof address) == 0, "connect");
    int at_once = 1;
    setsockopt(senders[i].socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = i};
    must(epoll_ctl(events, EPOLL_CTL_ADD, senders[i].socket, &wanted) == 0, "epoll_ctl");
  }
  double began = now();
  for (int i = 0; i < number; i++) ask(&senders[i]);
  while (now() - began < seconds) {
    struct epoll_event ready[64];
    int found = epoll_wait(events, ready, 64, 1000);
    for (int i = 0; i < found; i++) take(&senders[ready[i].data.u32]);
  }
  double took = now() - began;
  must(answered > 0, "no answer came");
  qsort(times, answered, sizeof *times, compare);
  printf("%.0f/s, p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, longest %.2f ms\n", answered / took, times[answered / 2],
         times[answered * 9 / 10], times[answered * 99 / 100], times[answered - 1]);
}
