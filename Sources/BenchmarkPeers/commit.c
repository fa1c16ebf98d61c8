/* P6 peer. cc -O2 -o commit commit.c -lsqlite3 -lpthread -ldl */
/* group commit against one fsync per commit: T threads each "send" rows to one SQLite file (outbox row + event row), synchronous=FULL, WAL.
 * commit DB MODE(one|group) THREADS SECONDS [EXTRA_SYNC_US]  */
#define _GNU_SOURCE
#include <sqlite3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <dlfcn.h>
static double now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1e6+t.tv_nsec/1e3;}
static int extra; static long nsync; static double tsync; static int (*rfs)(int);
static float sd[2000000];
int fdatasync(int fd){ if(!rfs) rfs=dlsym(RTLD_NEXT,"fdatasync"); double t=now(); int r=rfs(fd); if(extra){ while(now()-t<extra) usleep((extra-(now()-t))>200?(extra-(now()-t)):1);} t=now()-t; if(nsync<2000000) sd[nsync]=t; nsync++; tsync+=t; return r; }
int fsync(int fd){ return fdatasync(fd); }
typedef struct R { struct R*n; int done; pthread_cond_t cv; char body[400]; } R;
static pthread_mutex_t mu=PTHREAD_MUTEX_INITIALIZER, wm=PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t work=PTHREAD_COND_INITIALIZER; static R*head,**tail=&head; static int stop,group; static long txs;
static sqlite3*db; static sqlite3_stmt*o,*e;
static void put(R*r){ sqlite3_bind_text(o,1,r->body,400,SQLITE_STATIC); sqlite3_step(o); sqlite3_reset(o); sqlite3_bind_int64(e,1,sqlite3_last_insert_rowid(db)); sqlite3_step(e); sqlite3_reset(e); }
static void*writer(void*x){ for(;;){ pthread_mutex_lock(&mu); while(!head&&!stop) pthread_cond_wait(&work,&mu); if(!head){ pthread_mutex_unlock(&mu); return 0;} R*l=head; head=0; tail=&head; pthread_mutex_unlock(&mu);
  sqlite3_exec(db,"BEGIN IMMEDIATE",0,0,0); for(R*r=l;r;r=r->n) put(r); sqlite3_exec(db,"COMMIT",0,0,0); txs++; pthread_mutex_lock(&mu); while(l){ R*n=l->n; l->done=1; pthread_cond_signal(&l->cv); l=n; } pthread_mutex_unlock(&mu);} }
typedef struct { float*l; long n; double end; } W;
static void*client(void*x){ W*w=x; R r; memset(&r,0,sizeof r); memset(r.body,'b',400); pthread_cond_init(&r.cv,0); while(now()<w->end){ double t=now();
  if(group){ pthread_mutex_lock(&mu); r.done=0; r.n=0; *tail=&r; tail=&r.n; pthread_cond_signal(&work); while(!r.done) pthread_cond_wait(&r.cv,&mu); pthread_mutex_unlock(&mu);} 
  else { pthread_mutex_lock(&wm); sqlite3_exec(db,"BEGIN IMMEDIATE",0,0,0); put(&r); sqlite3_exec(db,"COMMIT",0,0,0); txs++; pthread_mutex_unlock(&wm);} if(w->n<1000000) w->l[w->n++]=now()-t; } return 0; }
static int cmp(const void*a,const void*b){float x=*(float*)a,y=*(float*)b;return x<y?-1:x>y;}
int main(int c,char**v){ group=!strcmp(v[2],"group"); int T=atoi(v[3]); double S=atof(v[4]); extra=c>5?atoi(v[5]):0; char p[300]; unlink(v[1]); snprintf(p,300,"%s-wal",v[1]); unlink(p); snprintf(p,300,"%s-shm",v[1]); unlink(p);
 sqlite3_open(v[1],&db); sqlite3_exec(db,"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE o(id INTEGER PRIMARY KEY,b BLOB); CREATE TABLE e(seq INTEGER PRIMARY KEY,ref INT)",0,0,0);
 sqlite3_prepare_v2(db,"INSERT INTO o(b) VALUES(?)",-1,&o,0); sqlite3_prepare_v2(db,"INSERT INTO e(ref) VALUES(?)",-1,&e,0); nsync=0; tsync=0;
 pthread_t wt,*t=malloc(T*sizeof*t); W*w=calloc(T,sizeof*w); pthread_create(&wt,0,writer,0); double t0=now(); for(int i=0;i<T;i++){ w[i].l=malloc(4000000); w[i].end=t0+S*1e6; pthread_create(&t[i],0,client,&w[i]);} long n=0; for(int i=0;i<T;i++){ pthread_join(t[i],0); n+=w[i].n; } double el=(now()-t0)/1e6; pthread_mutex_lock(&mu); stop=1; pthread_cond_signal(&work); pthread_mutex_unlock(&mu); pthread_join(wt,0);
 float*a=malloc(n*4); long k=0; for(int i=0;i<T;i++){ memcpy(a+k,w[i].l,w[i].n*4); k+=w[i].n; } qsort(a,n,4,cmp); long ns=nsync<2000000?nsync:2000000; qsort(sd,ns,4,cmp); float p50=sd[ns/2];
 printf("%-5s T=%d extra=%dus: %.0f/s, rows/commit %.1f, fdatasync p50 %.0f p99 %.0f us (n %ld); latency p50 %.0f p99 %.0f us = %.1f and %.1f fsyncs(p50)\n",v[2],T,extra,n/el,(double)n/txs,p50,sd[ns*99/100],nsync,a[n/2],a[n*99/100],a[n/2]/p50,a[n*99/100]/p50); }
