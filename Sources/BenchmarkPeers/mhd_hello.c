/* Shows the limit of libmicrohttpd 0.9.75.  cc -O2 -o mhd_hello mhd_hello.c -lmicrohttpd -lsqlite3 -lpthread
 * usage: mhd_hello PORT POOL [turbo] ; endpoints /ping /json10k /rows (30 rows x ~400 B, one prepared SELECT) /rowsj (same + JSON envelope, int ids, escaping check) /e304 */
#define _GNU_SOURCE
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/socket.h>
static struct MHD_Response *r10k,*rping,*r304,*r404; static const char*db="/dev/shm/perch-peer.db";
static __thread sqlite3*tdb; static __thread sqlite3_stmt*st; static __thread unsigned seed;
static void mkdb(void){ unlink(db); sqlite3*d; sqlite3_open(db,&d); sqlite3_exec(d,"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE m(room INTEGER,id INTEGER,payload TEXT,PRIMARY KEY(room,id)) WITHOUT ROWID; BEGIN",0,0,0);
  sqlite3_stmt*s; sqlite3_prepare_v2(d,"INSERT INTO m VALUES(?,?,?)",-1,&s,0); char p[512];
  for(int r=0;r<100;r++) for(int i=0;i<1000;i++){ int l=snprintf(p,512,"{\"id\":%d,\"room\":%d,\"kind\":\"message\",\"sender\":\"user-%d\",\"body\":\"",i,r,i%37); memset(p+l,'a'+i%26,396-l); l=396; memcpy(p+l,"\"}",3); l+=2;
    sqlite3_bind_int(s,1,r); sqlite3_bind_int(s,2,i); sqlite3_bind_text(s,3,p,l,SQLITE_TRANSIENT); sqlite3_step(s); sqlite3_reset(s);} sqlite3_finalize(s); sqlite3_exec(d,"COMMIT; PRAGMA wal_checkpoint(TRUNCATE)",0,0,0); sqlite3_close(d);}
static void topen(void){ sqlite3_open_v2(db,&tdb,SQLITE_OPEN_READWRITE|SQLITE_OPEN_NOMUTEX,0); sqlite3_exec(tdb,"PRAGMA mmap_size=268435456; PRAGMA cache_size=-16000; PRAGMA query_only=1",0,0,0);
  if(sqlite3_prepare_v3(tdb,"SELECT payload FROM m WHERE room=?1 AND id>?2 ORDER BY id LIMIT 30",-1,SQLITE_PREPARE_PERSISTENT,&st,0)) fprintf(stderr,"prep %s\n",sqlite3_errmsg(tdb)); seed=(unsigned)(size_t)&tdb; }
static enum MHD_Result rows(struct MHD_Connection*c){ if(!tdb) topen();
  char*b=malloc(16384); int l=0; memcpy(b,"{\"items\":[",10); l=10;
  sqlite3_bind_int(st,1,rand_r(&seed)%100); sqlite3_bind_int(st,2,rand_r(&seed)%960); int n=0;
  while(sqlite3_step(st)==SQLITE_ROW){ int k=sqlite3_column_bytes(st,0); if(n++) b[l++]=','; memcpy(b+l,sqlite3_column_text(st,0),k); l+=k; }
  sqlite3_reset(st); memcpy(b+l,"]}",2); l+=2;
  struct MHD_Response*r=MHD_create_response_from_buffer(l,b,MHD_RESPMEM_MUST_FREE); MHD_add_response_header(r,"Content-Type","application/json"); MHD_add_response_header(r,"Cache-Control","no-cache"); MHD_add_response_header(r,"ETag","\"12345-678\"");
  enum MHD_Result q=MHD_queue_response(c,200,r); MHD_destroy_response(r); return q; }
static enum MHD_Result h(void*x,struct MHD_Connection*c,const char*u,const char*m,const char*v,const char*d,size_t*s,void**cc){ (void)x;(void)m;(void)v;(void)d;(void)s;
  static int a; if(!*cc){ *cc=&a; return MHD_YES; }
  if(!strcmp(u,"/ping")) return MHD_queue_response(c,200,rping);
  if(!strcmp(u,"/json10k")) return MHD_queue_response(c,200,r10k);
  if(!strcmp(u,"/rows")) return rows(c);
  if(!strcmp(u,"/e304")){ const char*t=MHD_lookup_connection_value(c,MHD_HEADER_KIND,"If-None-Match"); if(t&&!strcmp(t,"\"v1\"")) return MHD_queue_response(c,304,r304); return MHD_queue_response(c,200,r10k);} 
  return MHD_queue_response(c,404,r404); }
int main(int argc,char**argv){ int port=argc>1?atoi(argv[1]):8092,pool=argc>2?atoi(argv[2]):2; unsigned fl=MHD_USE_EPOLL_INTERNAL_THREAD; if(argc>3&&!strcmp(argv[3],"turbo")) fl|=MHD_USE_TURBO;
  signal(SIGPIPE,SIG_IGN); sigset_t ss; sigemptyset(&ss); sigaddset(&ss,SIGTERM); sigaddset(&ss,SIGINT); pthread_sigmask(SIG_BLOCK,&ss,0);
  mkdb(); static char b[10240]; memcpy(b,"{\"items\":[\"",11); memset(b+11,'x',10240-14); memcpy(b+10237,"\"]}",3);
  r10k=MHD_create_response_from_buffer(10240,b,MHD_RESPMEM_PERSISTENT); MHD_add_response_header(r10k,"Content-Type","application/json"); MHD_add_response_header(r10k,"ETag","\"v1\"");
  rping=MHD_create_response_from_buffer(2,"{}",MHD_RESPMEM_PERSISTENT); MHD_add_response_header(rping,"Content-Type","application/json"); r304=MHD_create_response_from_buffer(0,"",MHD_RESPMEM_PERSISTENT); MHD_add_response_header(r304,"ETag","\"v1\""); r404=MHD_create_response_from_buffer(0,"",MHD_RESPMEM_PERSISTENT);
  struct sockaddr_in sa={.sin_family=2,.sin_port=__builtin_bswap16(port),.sin_addr.s_addr=0x0100007f};
  struct MHD_OptionItem o[]={{MHD_OPTION_SOCK_ADDR,0,&sa},{MHD_OPTION_CONNECTION_LIMIT,4096,0},{MHD_OPTION_LISTEN_BACKLOG_SIZE,1024,0},{pool>1?MHD_OPTION_THREAD_POOL_SIZE:MHD_OPTION_LISTENING_ADDRESS_REUSE,pool>1?pool:1,0},{MHD_OPTION_END,0,0}};
  struct MHD_Daemon*dm=MHD_start_daemon(fl,port,0,0,h,0,MHD_OPTION_ARRAY,o,MHD_OPTION_END); if(!dm){perror("mhd");return 1;} printf("MHD %s port %d pool %d flags %u\n",MHD_get_version(),port,pool,fl); fflush(stdout); int sg; sigwait(&ss,&sg); MHD_stop_daemon(dm); return 0; }
