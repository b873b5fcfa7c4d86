"""Commands of Redis that Penstock does not have, and what to use instead.

An application that keeps values in Redis and is pointed at the broker should learn from the first
reply what it is talking to. The reply begins like that for any unknown command, since libraries
look for that.
"""

_BROKER = "Penstock is a message broker, not a key-value store"
_MESSAGES = (
    "to send messages use PUBLISH and SUBSCRIBE, for streams XADD and XREADGROUP, for jobs PUSH"
    " and PULL"
)

_STORED = f"{_BROKER}: keep values elsewhere; {_MESSAGES}"
_QUEUED = f"{_BROKER}: for queues use PUSH and PULL, or XADD and XREADGROUP"
_SCRIPTED = f"{_BROKER}, and runs no scripts; {_MESSAGES}"
_ENUMERATED = f"{_BROKER}: its topics are listed by HTTP at /topics, on the same port"
_EXPIRED = f"{_BROKER}: a topic has an age limit and no end: set it with EXPIRE, see it with TTL"
_CONFIGURED = "Penstock is configured by its file and flags, see 'penstock config explain'"
_CLUSTERED = "Penstock is no Redis Cluster: every node serves every topic; turn cluster mode off"

_ADVICE = {
    _STORED: """
        APPEND BITCOUNT BITFIELD BITFIELD_RO BITOP BITPOS COPY DECR DECRBY DUMP GEOADD GEODIST
        GEOHASH GEOPOS GEORADIUS GEOSEARCH GET GETBIT GETDEL GETEX GETRANGE GETSET HDEL HEXISTS
        HGET HGETALL HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET HMSET HRANDFIELD HSCAN HSET HSETNX
        HSTRLEN HVALS INCR INCRBY INCRBYFLOAT LCS MGET MOVE MSET MSETNX OBJECT PFADD PFCOUNT
        PFMERGE PSETEX RENAME RENAMENX RESTORE SADD SCARD SDIFF SDIFFSTORE SET SETBIT SETEX
        SETNX SETRANGE SINTER SINTERCARD SINTERSTORE SISMEMBER SMEMBERS SMISMEMBER SMOVE SPOP
        SRANDMEMBER SREM SSCAN STRLEN SUBSTR SUNION SUNIONSTORE TOUCH ZADD ZCARD ZCOUNT ZDIFF
        ZDIFFSTORE ZINCRBY ZINTER ZINTERCARD ZINTERSTORE ZLEXCOUNT ZMPOP ZMSCORE ZPOPMAX
        ZPOPMIN ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANGESTORE ZRANK ZREM
        ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYLEX
        ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION ZUNIONSTORE BZMPOP BZPOPMAX BZPOPMIN
        """,
    _QUEUED: """
        BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH LINDEX LINSERT LLEN LMOVE LMPOP LPOP LPOS LPUSH
        LPUSHX LRANGE LREM LSET LTRIM RPOP RPOPLPUSH RPUSH RPUSHX SORT SORT_RO
        """,
    _SCRIPTED: """
        EVAL EVALSHA EVALSHA_RO EVAL_RO FCALL FCALL_RO FUNCTION SCRIPT
        """,
    _EXPIRED: "EXPIREAT EXPIRETIME PEXPIREAT PEXPIRETIME",
    _ENUMERATED: "DBSIZE KEYS RANDOMKEY SCAN",
    _CONFIGURED: "CONFIG BGREWRITEAOF BGSAVE LASTSAVE SAVE SHUTDOWN SLOWLOG",
    _CLUSTERED: "ASKING CLUSTER",
}

_BY_NAME = {name.encode(): text for text, names in _ADVICE.items() for name in names.split()}


def advice(name: bytes) -> str:
    return _BY_NAME.get(name.upper(), "")
