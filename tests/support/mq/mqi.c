/* A stand-in for IBM's client library: the 23 entry points of the MQI that the Python binding links to, over a
 * queue manager that lives in this process. It is there so that the real binding runs in tests, with its real
 * structures and constants. It shows that our calls are well formed; it shows nothing about IBM MQ.
 *
 * Written from the published description of the MQI; nothing of it is IBM's. Names of structures and fields are
 * those of that description. One lock, linked lists, no files: a restart is played by dropping what is not
 * persistent. The functions stand_in_* are for the tests.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int32_t MQLONG;
typedef int64_t MQHMSG;

typedef struct { void *ptr; MQLONG offset, room, length, ccsid; } MQCHARV;

typedef struct {
    char StrucId[4]; MQLONG Version, Report, MsgType, Expiry, Feedback, Encoding, CodedCharSetId;
    char Format[8]; MQLONG Priority, Persistence; char MsgId[24], CorrelId[24]; MQLONG BackoutCount;
    char ReplyToQ[48], ReplyToQMgr[48], UserIdentifier[12], AccountingToken[32], ApplIdentityData[32];
    MQLONG PutApplType; char PutApplName[28], PutDate[8], PutTime[8], ApplOriginData[4], GroupId[24];
    MQLONG MsgSeqNumber, Offset, MsgFlags, OriginalLength;
} MQMD;
_Static_assert(sizeof(MQMD) == 364, "an MQMD of version 2 has 364 bytes");

typedef struct {
    char StrucId[4]; MQLONG Version, ObjectType; char ObjectName[48], ObjectQMgrName[48], DynamicQName[48];
    char AlternateUserId[12]; MQLONG RecsPresent, KnownDestCount, UnknownDestCount, InvalidDestCount;
    MQLONG ObjectRecOffset, ResponseRecOffset; void *ObjectRecPtr, *ResponseRecPtr;
    char AlternateSecurityId[40], ResolvedQName[48], ResolvedQMgrName[48];
    MQCHARV ObjectString, SelectionString, ResObjectString; MQLONG ResolvedType;
} MQOD;
_Static_assert(sizeof(MQOD) == 424, "an MQOD of version 4 has 424 bytes");

typedef struct {
    char StrucId[4]; MQLONG Version, Options, WaitInterval, Signal1, Signal2; char ResolvedQName[48];
    MQLONG MatchOptions; char GroupStatus, SegmentStatus, Segmentation, Reserved1, MsgToken[16];
    MQLONG ReturnedLength, Reserved2; MQHMSG MsgHandle;
} MQGMO;
_Static_assert(sizeof(MQGMO) == 112, "an MQGMO of version 4 has 112 bytes");

typedef struct {
    char StrucId[4]; MQLONG Version, Options, Timeout, Context, KnownDestCount, UnknownDestCount;
    MQLONG InvalidDestCount; char ResolvedQName[48], ResolvedQMgrName[48];
    MQLONG RecsPresent, PutMsgRecFields, PutMsgRecOffset, ResponseRecOffset; void *PutMsgRecPtr, *ResponseRecPtr;
    MQHMSG OriginalMsgHandle, NewMsgHandle; MQLONG Action, PubLevel;
} MQPMO;
_Static_assert(sizeof(MQPMO) == 184, "an MQPMO of version 3 has 184 bytes");

typedef struct {
    char StrucId[4]; MQLONG Version, Options; char ObjectName[48], AlternateUserId[12], AlternateSecurityId[40];
    MQLONG SubExpiry; MQCHARV ObjectString, SubName, SubUserData; char SubCorrelId[24]; MQLONG PubPriority;
    char PubAccountingToken[32], PubApplIdentityData[32]; MQCHARV SelectionString; MQLONG SubLevel;
    MQCHARV ResObjectString;
} MQSD;

typedef struct {
    char StrucId[4]; MQLONG Version, Options, RequestedEncoding, RequestedCCSID, ReturnedEncoding, ReturnedCCSID;
    MQLONG Reserved1; MQCHARV ReturnedName; char TypeString[8];
} MQIMPO;
_Static_assert(sizeof(MQIMPO) == 64, "an MQIMPO has 64 bytes");

enum { CC_OK, CC_WARNING, CC_FAILED };
enum { GMO_WAIT = 1, SYNCPOINT = 2, GMO_LOGICAL_ORDER = 0x8000, GMO_ALL_MSGS_AVAILABLE = 0x20000,
       GMO_PROPERTIES_IN_HANDLE = 0x08000000, MO_MATCH_MSG_ID = 1, OO_INPUT_SHARED = 2, OO_OUTPUT = 0x10,
       SO_CREATE = 2, SO_RESUME = 4, SO_DURABLE = 8, SO_MANAGED = 0x20, CO_KEEP_SUB = 4, OT_TOPIC = 8, OT_Q_MGR = 5,
       IMPO_CONVERT_TYPE = 2, IMPO_INQ_NEXT = 8, IMPO_UNDER_CURSOR = 0x10,
       TYPE_NULL = 2, TYPE_BOOLEAN = 4, TYPE_STRING = 0x400, IN_GROUP = 8, LAST_IN_GROUP = 16 };

typedef struct property {
    struct property *next; char *name, *value; MQLONG name_length, type, length;
} property;

typedef struct message {
    struct message *next; struct queue *queue; MQMD md; char *body; MQLONG length; property *properties;
    long place; double expires_at; int owner; /* the connection whose unit of work it is in; 0 if none */
    int was_put; /* by that unit of work; otherwise it was got */
} message;

typedef struct queue {
    struct queue *next; char name[49], backout_queue[49]; message *messages;
    int max_depth, max_length, backout_threshold, persistence, model, put_denied, get_denied, temporary, deleted;
} queue;

typedef struct subscription {
    struct subscription *next; char topic[256], name[256]; int durable, reader; queue *queue;
} subscription;

typedef struct object {
    int used, connection, qmgr; queue *queue; subscription *subscription; char topic[256];
    char group[24]; int in_group, next_number;
    char group_before[24]; int saved, in_group_before, next_number_before; /* as the unit of work found it */
} object;

#define MOST 4096
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static queue *queues;
static subscription *subscriptions;
static object objects[MOST];
static int connections[MOST]; /* 0 free, 1 open, 2 broken */
static property *handles[MOST], *cursors[MOST];
static int handle_used[MOST];
static long places;
static int commit_reason, commit_after, stopped;

static void done(MQLONG *code, MQLONG *reason, MQLONG why) {
    *reason = why;
    *code = why == 0 ? CC_OK : why == 2469 || why == 2080 ? CC_WARNING : CC_FAILED;
    pthread_mutex_unlock(&lock);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void field(char *to, const char *from, int size) { /* a name out of a field that ends in blanks or a zero */
    int n = 0;
    while (n < size && from[n]) n++;
    while (n > 0 && from[n - 1] == ' ') n--;
    memcpy(to, from, n);
    to[n] = 0;
}

static void fill(char *to, const char *from, int size) {
    memset(to, ' ', size);
    memcpy(to, from, strlen(from) < (size_t)size ? strlen(from) : (size_t)size);
}

static void charv(char *to, const MQCHARV *from) {
    int n = from->length < 255 ? from->length : 255;
    memcpy(to, from->ptr, n);
    to[n] = 0;
}

static MQLONG check(MQLONG connection) {
    if (connection <= 0 || connection >= MOST || !connections[connection]) return 2018;
    return connections[connection] == 2 ? 2009 : 0;
}

static object *find_object(MQLONG connection, MQLONG handle) {
    if (handle <= 0 || handle >= MOST || !objects[handle].used) return NULL;
    return objects[handle].connection == connection ? &objects[handle] : NULL;
}

static MQLONG new_object(MQLONG connection) {
    for (int i = 1; i < MOST; i++)
        if (!objects[i].used) {
            memset(&objects[i], 0, sizeof(object));
            objects[i].used = 1;
            objects[i].connection = connection;
            return i;
        }
    abort();
}

static queue *find_queue(const char *name) {
    queue *q = queues;
    while (q && (q->deleted || strcmp(q->name, name))) q = q->next;
    return q;
}

static queue *new_queue(const char *name) {
    queue *q = calloc(1, sizeof(queue));
    snprintf(q->name, sizeof q->name, "%s", name);
    q->max_depth = 5000;
    q->max_length = 4 * 1024 * 1024;
    q->next = queues;
    return queues = q;
}

static property *copy_properties(const property *from) {
    property *first = NULL, **at = &first;
    for (; from; from = from->next) {
        property *p = *at = calloc(1, sizeof(property));
        *p = *from;
        p->name = malloc(from->name_length + 1);
        memcpy(p->name, from->name, from->name_length + 1);
        p->value = malloc(from->length + 1);
        memcpy(p->value, from->value, from->length);
        p->next = NULL;
        at = &p->next;
    }
    return first;
}

static void free_properties(property *p) {
    while (p) {
        property *next = p->next;
        free(p->name); free(p->value); free(p);
        p = next;
    }
}

static void remove_message(message *gone) {
    message **at = &gone->queue->messages;
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    free_properties(gone->properties);
    free(gone->body); free(gone);
}

static void insert_message(queue *q, message *m) { /* by priority, then in order of arrival */
    message **at = &q->messages;
    while (*at && ((*at)->md.Priority > m->md.Priority
                   || ((*at)->md.Priority == m->md.Priority && (*at)->place < m->place))) at = &(*at)->next;
    m->next = *at;
    m->queue = q;
    *at = m;
}

static void end_unit(int connection, int committed) {
    for (queue *q = queues; q; q = q->next)
        for (message *m = q->messages, *next; m; m = next) {
            next = m->next;
            if (m->owner != connection) continue;
            if (m->was_put != committed) { remove_message(m); continue; }
            m->owner = 0;
            if (!committed) m->md.BackoutCount++;
        }
    for (int i = 1; i < MOST; i++) {
        object *o = &objects[i];
        if (!o->used || o->connection != connection || !o->saved) continue;
        if (!committed) {
            memcpy(o->group, o->group_before, 24);
            o->in_group = o->in_group_before;
            o->next_number = o->next_number_before;
        }
        o->saved = 0;
    }
    pthread_cond_broadcast(&changed);
}

static void empty(queue *q, int all) {
    for (message *m = q->messages, *next; m; m = next) {
        next = m->next;
        if (all || m->md.Persistence != 1) remove_message(m);
    }
}

static void drop_subscription(subscription *gone) {
    subscription **at = &subscriptions;
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    empty(gone->queue, 1);
    gone->queue->deleted = 1;
    free(gone);
}

static void end_connection(int connection, int state) {
    end_unit(connection, 0);
    for (int i = 1; i < MOST; i++)
        if (objects[i].used && objects[i].connection == connection) objects[i].used = 0;
    for (subscription *s = subscriptions, *next; s; s = next) {
        next = s->next;
        if (s->reader != connection) continue;
        s->reader = 0;
        if (!s->durable) drop_subscription(s);
    }
    connections[connection] = state;
    pthread_cond_broadcast(&changed);
}

/* Connections and units of work. */

void MQCONNX(char *name, void *cno, MQLONG *connection, MQLONG *code, MQLONG *reason) {
    (void)cno;
    pthread_mutex_lock(&lock);
    *connection = -1;
    if (stopped) { done(code, reason, 2059); return; }
    if (*name && *name != ' ' && strncmp(name, "STANDIN", 7)) { done(code, reason, 2058); return; }
    for (int i = 1; i < MOST; i++)
        if (!connections[i]) {
            connections[i] = 1;
            *connection = i;
            done(code, reason, 0);
            return;
        }
    done(code, reason, 2025);
}

void MQCONN(char *name, MQLONG *connection, MQLONG *code, MQLONG *reason) { MQCONNX(name, NULL, connection, code, reason); }

void MQDISC(MQLONG *connection, MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    MQLONG why = check(*connection);
    if (!why) end_unit(*connection, 1); /* MQ commits here: who wants otherwise backs out first */
    if (why != 2018) end_connection(*connection, 0);
    *connection = -1;
    done(code, reason, why);
}

void MQCMIT(MQLONG connection, MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    MQLONG why = check(connection);
    if (!why && commit_reason) {
        why = commit_reason;
        end_unit(connection, commit_after);
        if (why != 2003) end_connection(connection, 2);
        commit_reason = 0;
    } else if (!why) end_unit(connection, 1);
    done(code, reason, why);
}

void MQBACK(MQLONG connection, MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    MQLONG why = check(connection);
    if (!why) end_unit(connection, 0);
    done(code, reason, why);
}

/* Objects. */

void MQOPEN(MQLONG connection, MQOD *od, MQLONG options, MQLONG *handle, MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    *handle = -1;
    MQLONG why = check(connection);
    if (why) { done(code, reason, why); return; }
    if (od->ObjectType == OT_Q_MGR) {
        *handle = new_object(connection);
        objects[*handle].qmgr = 1;
        done(code, reason, 0);
        return;
    }
    if (od->ObjectType == OT_TOPIC) {
        *handle = new_object(connection);
        charv(objects[*handle].topic, &od->ObjectString);
        done(code, reason, 0);
        return;
    }
    char name[49], manager[49];
    field(name, od->ObjectName, 48);
    field(manager, od->ObjectQMgrName, 48);
    if (*manager && strcmp(manager, "STANDIN")) { done(code, reason, 2087); return; }
    queue *q = find_queue(name);
    if (!q) { done(code, reason, 2085); return; }
    if ((q->put_denied && options & OO_OUTPUT) || (q->get_denied && options & OO_INPUT_SHARED)) {
        done(code, reason, 2035);
        return;
    }
    if (q->model) {
        snprintf(name, sizeof name, "AMQ.%016lX", ++places);
        q = new_queue(name);
        q->temporary = 1;
        fill(od->ObjectName, name, 48);
    }
    *handle = new_object(connection);
    objects[*handle].queue = q;
    done(code, reason, 0);
}

void MQCLOSE(MQLONG connection, MQLONG *handle, MQLONG options, MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    MQLONG why = check(connection);
    object *o = why ? NULL : find_object(connection, *handle);
    if (!why && !o) why = 2019;
    if (o) {
        subscription *s = o->subscription;
        if (s && !o->queue) { /* the handle of the subscription, not that of its queue */
            s->reader = 0;
            if (!s->durable || !(options & CO_KEEP_SUB)) drop_subscription(s);
        }
        o->used = 0;
        *handle = -1;
    }
    done(code, reason, why);
}

void MQINQ(MQLONG connection, MQLONG handle, MQLONG count, MQLONG *selectors, MQLONG ints, MQLONG *int_values,
           MQLONG chars, char *char_values, MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    (void)ints; (void)chars;
    MQLONG why = check(connection);
    object *o = why ? NULL : find_object(connection, handle);
    if (!why && !o) why = 2019;
    for (int i = 0; o && i < count; i++)
        if (selectors[i] == 22) *int_values++ = o->queue->backout_threshold;
        else if (selectors[i] == 2019) { fill(char_values, o->queue->backout_queue, 48); char_values += 48; }
        else if (selectors[i] == 2015) { fill(char_values, "STANDIN", 48); char_values += 48; }
        else why = 2067;
    done(code, reason, why);
}

/* Messages. */

static int matches(const char *pattern, const char *topic) {
    if (!strcmp(pattern, "#")) return 1;
    size_t p = strcspn(pattern, "/"), t = strcspn(topic, "/");
    if (!(p == 1 && *pattern == '+') && (p != t || strncmp(pattern, topic, p))) return 0;
    if (!pattern[p] && !topic[t]) return 1;
    if (!topic[t]) return !strcmp(pattern + p, "/#");
    return pattern[p] && matches(pattern + p + 1, topic + t + 1);
}

static int depth(queue *q) {
    int n = 0;
    for (message *m = q->messages; m; m = m->next) n++;
    return n;
}

static MQLONG room(queue *q, MQLONG length) {
    if (length > q->max_length) return 2030;
    return depth(q) >= q->max_depth ? 2053 : 0;
}

static void put_on(queue *q, int connection, const MQMD *md, const MQPMO *pmo, const char *body, MQLONG length) {
    message *m = calloc(1, sizeof(message));
    m->md = *md;
    if (m->md.Persistence == 2) m->md.Persistence = q->persistence;
    m->body = malloc(length + 1);
    memcpy(m->body, body, length);
    m->length = length;
    if (pmo->OriginalMsgHandle) m->properties = copy_properties(handles[pmo->OriginalMsgHandle]);
    m->place = ++places;
    m->expires_at = md->Expiry < 0 ? 0 : now() + md->Expiry / 10.0;
    m->owner = pmo->Options & SYNCPOINT ? connection : 0;
    m->was_put = 1;
    insert_message(q, m);
}

void MQPUT(MQLONG connection, MQLONG handle, MQMD *md, MQPMO *pmo, MQLONG length, void *body, MQLONG *code,
           MQLONG *reason) {
    pthread_mutex_lock(&lock);
    MQLONG why = check(connection);
    object *o = why ? NULL : find_object(connection, handle);
    if (!why && !o) why = 2019;
    if (!why && o->queue) why = room(o->queue, length);
    if (!why && md->Priority < -1) why = 2050;
    if (!why && o->queue && o->queue->temporary && md->Persistence == 1) why = 2048;
    if (why) { done(code, reason, why); return; }
    static const char none[24];
    char text[64];
    if (!memcmp(md->MsgId, none, 24)) {
        memcpy(md->MsgId, "AMQ STANDIN     ", 16);
        long number = ++places;
        memcpy(md->MsgId + 16, &number, 8);
    }
    if (md->Priority < 0) md->Priority = 0;
    if (md->Priority > 9) md->Priority = 9;
    if (md->Persistence == 2 && o->queue) md->Persistence = o->queue->persistence;
    if (!md->CodedCharSetId) md->CodedCharSetId = 1208;
    md->BackoutCount = 0;
    field(text, md->ReplyToQ, 48);
    if (*text) {
        field(text, md->ReplyToQMgr, 48);
        if (!*text) fill(md->ReplyToQMgr, "STANDIN", 48);
    }
    fill(md->UserIdentifier, "standin", 12);
    memset(md->AccountingToken, 0, 32);
    fill(md->ApplIdentityData, "", 32);
    fill(md->ApplOriginData, "", 4);
    md->PutApplType = 6;
    fill(md->PutApplName, "mqi.c", 28);
    time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y%m%d", &utc);
    fill(md->PutDate, text, 8);
    strftime(text, sizeof text, "%H%M%S00", &utc);
    fill(md->PutTime, text, 8);
    if (o->queue) put_on(o->queue, connection, md, pmo, body, length);
    else
        for (subscription *s = subscriptions; s; s = s->next)
            if (matches(s->topic, o->topic)) put_on(s->queue, connection, md, pmo, body, length);
    pthread_cond_broadcast(&changed);
    done(code, reason, 0);
}

static int is_whole(queue *q, const char *group) {
    int count = 0, last = 0;
    for (message *m = q->messages; m; m = m->next)
        if (!m->owner && m->md.MsgFlags & (IN_GROUP | LAST_IN_GROUP) && !memcmp(m->md.GroupId, group, 24)) {
            count++;
            if (m->md.MsgFlags & LAST_IN_GROUP) last = m->md.MsgSeqNumber;
        }
    return last && count >= last;
}

static int suits(object *o, message *m, const MQMD *md, const MQGMO *gmo) {
    static const char none[24];
    if (m->owner) return 0;
    if (gmo->MatchOptions & MO_MATCH_MSG_ID && memcmp(md->MsgId, none, 24) && memcmp(md->MsgId, m->md.MsgId, 24)) return 0;
    if (!(gmo->Options & GMO_LOGICAL_ORDER)) return 1;
    int grouped = m->md.MsgFlags & (IN_GROUP | LAST_IN_GROUP);
    if (o->in_group)
        return grouped && !memcmp(m->md.GroupId, o->group, 24) && m->md.MsgSeqNumber == o->next_number;
    return !grouped || (m->md.MsgSeqNumber == 1 && is_whole(m->queue, m->md.GroupId));
}

void MQGET(MQLONG connection, MQLONG handle, MQMD *md, MQGMO *gmo, MQLONG room, void *buffer, MQLONG *length,
           MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    double deadline = now() + (gmo->Options & GMO_WAIT ? gmo->WaitInterval / 1000.0 : 0);
    for (;;) {
        MQLONG why = check(connection);
        object *o = why ? NULL : find_object(connection, handle);
        if (!why && (!o || !o->queue)) why = 2019;
        if (why) { done(code, reason, why); return; }
        message *m = o->queue->messages;
        while (m && !suits(o, m, md, gmo)) m = m->next;
        if (m && m->expires_at && m->expires_at <= now()) { remove_message(m); continue; }
        if (m) {
            *length = m->length;
            MQLONG version = md->Version;
            *md = m->md;
            md->Version = version;
            memcpy(buffer, m->body, m->length < room ? m->length : room);
            if (m->length > room) { done(code, reason, 2080); *code = CC_FAILED; return; }
            if (m->expires_at) {
                md->Expiry = (MQLONG)((m->expires_at - now()) * 10 + 0.5);
                if (md->Expiry < 1) md->Expiry = 1;
            }
            if (gmo->Options & GMO_PROPERTIES_IN_HANDLE) {
                free_properties(handles[gmo->MsgHandle]);
                handles[gmo->MsgHandle] = copy_properties(m->properties);
                cursors[gmo->MsgHandle] = NULL;
            }
            if (gmo->Options & GMO_LOGICAL_ORDER && m->md.MsgFlags & (IN_GROUP | LAST_IN_GROUP)) {
                if (!o->saved) {
                    memcpy(o->group_before, o->group, 24);
                    o->in_group_before = o->in_group;
                    o->next_number_before = o->next_number;
                    o->saved = 1;
                }
                memcpy(o->group, m->md.GroupId, 24);
                o->next_number = m->md.MsgSeqNumber + 1;
                o->in_group = !(m->md.MsgFlags & LAST_IN_GROUP);
            }
            if (gmo->Options & SYNCPOINT) { m->owner = connection; m->was_put = 0; }
            else remove_message(m);
            done(code, reason, 0);
            return;
        }
        if (now() >= deadline) { done(code, reason, 2033); return; }
        struct timespec until = { (time_t)deadline, (long)((deadline - (time_t)deadline) * 1e9) };
        pthread_cond_timedwait(&changed, &lock, &until);
    }
}

void MQSUB(MQLONG connection, MQSD *sd, MQLONG *queue_handle, MQLONG *handle, MQLONG *code, MQLONG *reason) {
    pthread_mutex_lock(&lock);
    *handle = -1;
    MQLONG why = check(connection);
    if (!why && (sd->ObjectString.length <= 0 || !(sd->Options & SO_MANAGED))) why = 2425;
    if (why) { done(code, reason, why); return; }
    char name[256] = "", text[64];
    if (sd->Options & SO_DURABLE) charv(name, &sd->SubName);
    subscription *s = subscriptions;
    while (s && !(*name && !strcmp(s->name, name))) s = s->next;
    if (s && s->reader) { done(code, reason, 2429); return; }
    if (!s) {
        s = calloc(1, sizeof(subscription));
        snprintf(text, sizeof text, "SYSTEM.MANAGED.%016lX", ++places);
        charv(s->topic, &sd->ObjectString);
        snprintf(s->name, sizeof s->name, "%s", name);
        s->durable = (sd->Options & SO_DURABLE) != 0;
        s->queue = new_queue(text);
        s->next = subscriptions;
        subscriptions = s;
    }
    s->reader = connection;
    *queue_handle = new_object(connection);
    objects[*queue_handle].queue = s->queue;
    *handle = new_object(connection);
    objects[*handle].subscription = s;
    done(code, reason, 0);
}

/* Properties. */

void MQCRTMH(MQLONG connection, void *options, MQHMSG *handle, MQLONG *code, MQLONG *reason) {
    (void)connection; (void)options;
    pthread_mutex_lock(&lock);
    *handle = 1;
    while (handle_used[*handle]) ++*handle;
    handle_used[*handle] = 1;
    handles[*handle] = cursors[*handle] = NULL;
    done(code, reason, 0);
}

void MQDLTMH(MQLONG connection, MQHMSG *handle, void *options, MQLONG *code, MQLONG *reason) {
    (void)connection; (void)options;
    pthread_mutex_lock(&lock);
    handle_used[*handle] = 0;
    free_properties(handles[*handle]);
    handles[*handle] = NULL;
    *handle = -1;
    done(code, reason, 0);
}

void MQSETMP(MQLONG connection, MQHMSG handle, void *options, MQCHARV *name, void *pd, MQLONG type, MQLONG length,
             void *value, MQLONG *code, MQLONG *reason) {
    (void)connection; (void)options; (void)pd;
    pthread_mutex_lock(&lock);
    const char *text = name->ptr;
    int bad = !name->length || (text[0] >= '0' && text[0] <= '9') || !strncmp(text, "JMS", 3);
    for (int i = 0; i < name->length; i++) bad |= strchr(" -+*/()=<>,;:'\"%", text[i]) != NULL;
    if (bad) { done(code, reason, 2442); return; }
    property **at = &handles[handle];
    while (*at) at = &(*at)->next;
    property *p = *at = calloc(1, sizeof(property));
    p->name = calloc(1, name->length + 1);
    memcpy(p->name, text, name->length);
    p->name_length = name->length;
    p->type = type;
    p->length = type == TYPE_NULL ? 0 : length < 0 ? (MQLONG)strlen(value) : length;
    p->value = malloc(p->length + 1);
    if (p->length) memcpy(p->value, value, p->length);
    done(code, reason, 0);
}

void MQINQMP(MQLONG connection, MQHMSG handle, MQIMPO *impo, MQCHARV *name, void *pd, MQLONG *type, MQLONG room,
             void *value, MQLONG *length, MQLONG *code, MQLONG *reason) {
    (void)connection; (void)pd;
    pthread_mutex_lock(&lock);
    property *p = handles[handle];
    *length = 0;
    if (((char *)name->ptr)[0] == '%') {
        if (impo->Options & IMPO_UNDER_CURSOR) p = cursors[handle];
        else if (impo->Options & IMPO_INQ_NEXT) p = cursors[handle] ? cursors[handle]->next : NULL;
        if (p) cursors[handle] = p;
    } else
        while (p && (p->name_length != name->length || memcmp(p->name, name->ptr, name->length))) p = p->next;
    if (!p) { *type = 0; done(code, reason, 2471); return; }
    char text[32];
    const char *from = p->value;
    *length = p->length;
    if (impo->Options & IMPO_CONVERT_TYPE && *type == TYPE_STRING && p->type != TYPE_STRING) {
        int32_t number = 0;
        memcpy(&number, p->value, p->length < 4 ? p->length : 4);
        if (p->type == TYPE_BOOLEAN) snprintf(text, sizeof text, "%s", number ? "TRUE" : "FALSE");
        else snprintf(text, sizeof text, "%d", number);
        from = text;
        *length = (MQLONG)strlen(text);
    } else
        *type = p->type;
    if (impo->ReturnedName.ptr) {
        memcpy(impo->ReturnedName.ptr, p->name, p->name_length);
        impo->ReturnedName.length = p->name_length;
    }
    memcpy(value, from, *length < room ? *length : room);
    done(code, reason, *length > room ? 2469 : 0);
}

/* What the binding links to and our adapter does not call. */

static void unsupported(MQLONG *code, MQLONG *reason) { *code = CC_FAILED; *reason = 2298; /* FUNCTION_NOT_SUPPORTED */ }
void MQBEGIN(MQLONG c, void *o, MQLONG *code, MQLONG *reason) { (void)c; (void)o; unsupported(code, reason); }
void MQPUT1(MQLONG c, void *od, void *md, void *pmo, MQLONG n, void *b, MQLONG *code, MQLONG *reason) {
    (void)c; (void)od; (void)md; (void)pmo; (void)n; (void)b; unsupported(code, reason); }
void MQSET(MQLONG c, MQLONG h, MQLONG n, MQLONG *s, MQLONG i, MQLONG *iv, MQLONG l, char *cv, MQLONG *code, MQLONG *reason) {
    (void)c; (void)h; (void)n; (void)s; (void)i; (void)iv; (void)l; (void)cv; unsupported(code, reason); }
void MQSUBRQ(MQLONG c, MQLONG h, MQLONG a, void *o, MQLONG *code, MQLONG *reason) { (void)c; (void)h; (void)a; (void)o; unsupported(code, reason); }
void MQSTAT(MQLONG c, MQLONG t, void *s, MQLONG *code, MQLONG *reason) { (void)c; (void)t; (void)s; unsupported(code, reason); }
void MQCB(MQLONG c, MQLONG op, void *d, MQLONG h, void *md, void *gmo, MQLONG *code, MQLONG *reason) {
    (void)c; (void)op; (void)d; (void)h; (void)md; (void)gmo; unsupported(code, reason); }
void MQCTL(MQLONG c, MQLONG op, void *o, MQLONG *code, MQLONG *reason) { (void)c; (void)op; (void)o; unsupported(code, reason); }
void MQDLTMP(MQLONG c, MQHMSG h, void *o, void *n, MQLONG *code, MQLONG *reason) { (void)c; (void)h; (void)o; (void)n; unsupported(code, reason); }

/* For the tests. */

void stand_in_define_queue(const char *name, int max_depth, int max_length, int backout_threshold,
                           const char *backout_queue, int persistence, int model, int put_denied, int get_denied) {
    pthread_mutex_lock(&lock);
    queue *q = find_queue(name);
    if (!q) q = new_queue(name);
    q->max_depth = max_depth;
    q->max_length = max_length;
    q->backout_threshold = backout_threshold;
    snprintf(q->backout_queue, sizeof q->backout_queue, "%s", backout_queue);
    q->persistence = persistence;
    q->model = model;
    q->put_denied = put_denied;
    q->get_denied = get_denied;
    pthread_mutex_unlock(&lock);
}

void stand_in_break_connections(void) {
    pthread_mutex_lock(&lock);
    for (int i = 1; i < MOST; i++)
        if (connections[i] == 1) end_connection(i, 2);
    pthread_mutex_unlock(&lock);
}

void stand_in_restart(void) {
    stand_in_break_connections();
    pthread_mutex_lock(&lock);
    for (queue *q = queues; q; q = q->next) empty(q, 0);
    pthread_mutex_unlock(&lock);
}

void stand_in_stop(int stop) { stopped = stop; }

void stand_in_fail_next_commit(int reason, int after) { commit_reason = reason; commit_after = after; }

void stand_in_reset(void) {
    stand_in_break_connections();
    pthread_mutex_lock(&lock);
    for (queue *q = queues; q; q = q->next) { empty(q, 1); q->deleted = 1; }
    while (subscriptions) drop_subscription(subscriptions);
    commit_reason = stopped = 0;
    pthread_mutex_unlock(&lock);
}

int stand_in_open_handles(void) {
    int n = 0;
    for (int i = 1; i < MOST; i++) n += handle_used[i];
    return n;
}
