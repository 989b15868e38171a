"""Random modules of several statements that feed, change and hinder each other; the last one is ``s``.

The placeholders are those of `tests.spark.modules`; `{O}` is an output clause, `{X}` one for the end of a context.
"""

# ruff: noqa: E501  (a table of modules reads better with a module in one line)
MORE_TYPES = """create schema Q(k string, x int);
create schema R(k string, x int, v int);
create variant schema V as E, B;
create variant schema Vany as *"""
OUTPUTS = (
    "all every 2 events|first every 2 events|last every 3 events|snapshot every 2 events|all every 1 sec|first every 1 sec"
    "|last every 700 msec|snapshot every 1 sec|first when count_insert > 1|all when count_insert > 2"
    "|snapshot when count_remove > 0|last when GO|after 2 events first every 2 events|after 1 sec all every 1 sec"
    "|snapshot at (*, *, *, *, *, */3)|when count_insert_total > 3"
)
ENDS = (
    "snapshot when terminated|when terminated|all when terminated|last when terminated|every 2 events and when terminated"
    "|snapshot every 1 sec and when terminated|last every 1 sec and when terminated then set N = 1"
    "|all every 3 events and when terminated"
)
CHAINS = (
    # variant
    "{c}insert into V select * from E({w}); {c}insert into V select * from B; select irstream k, x, d from V{v}{o}",
    "insert into V select * from {T}; select k, count(*) as n, sum(x) as s from V{v} group by k{o}",
    "insert into Vany select * from E; insert into Vany select k, x as y, x from B({w}); select k, typeof(x) as tx, x, y from Vany{o}",
    "insert into V select * from E; insert into V select * from B; select a.k as k, z.x as zx from pattern [every a=V(x > 0) -> z=V(k = a.k)]",
    "insert into V select * from E; select x, (select count(*) from V{v} as i where i.k = e.k) as n from B as e",
    # rollup, joins
    "{c}select a.k as k, z.g as g, count(*) as n, sum(z.x) as s from {T}{v} as a, {U}{v} as z where a.k = z.k group by rollup(a.k, z.g){o}",
    "{c}select b.k as k, count(*) as n from {T} as a unidirectional, {U}{v} as b where a.g = b.g group by rollup(b.k)",
    "{c}select irstream k, g, sum(x) as s, count(*) as n from {T}{v} group by cube(k, g) having count(*) > 1{o}",
    "{c}select k, g, max(d) as m, grouping(k) as gk from {T}{v} group by grouping sets((k, g), g) {o}",
    "{c}select irstream a.x as ax, z.x as zx, y.x as yx from E{v} as a left outer join F{v} as z on a.k = z.k right outer join B{v} as y on z.g = y.g",
    "{c}select irstream a.x as ax, z.x as zx, y.x as yx from E{v} as a full outer join B{v} as z on a.k = z.k left outer join F{v} as y on a.k = y.k{o}",
    "{c}select a.x as ax, prevcount(z.x) as pc, prevtail(z.x) as pt from E#length(2) as a, B#length(3) as z where a.k = z.k",
    # update
    "update istream {T} set x = (select max(x) from B{v}) where {w}; {c}select irstream k, x from {T}{v}{o}",
    "{c}insert into S select k, g, x, n, d, t, b from E({w}); update istream S as s set x = x + 1, d = (select avg(d) from E{v} as i where i.k = s.k); {c}select irstream k, x, d from S{v}{o}",
    "{c}insert into S select k, g, x, n, d, t, b from E; update istream S set n = (select count(*) from {T}{v}) where {w}; {c}select irstream k, x from S{v}",
    "update istream {T} set x = N where {w}; on B({w}) set N = x",
    # triggers, variables
    "on {T}({w}) set N = N + 1, LIM = x; {c}select irstream x from {T}(x > N){v}",
    "on {T} as e set P = (select count(*) from E{v}); {c}select x, P as vn from {T} where x < P{o}",
    "{c}on E({w}) insert into Q select k, x where {w} insert into Q select k, x + 1 as x where {w} insert into Out select k, g as s; {c}select irstream k, count(*) as n from Q{v} group by k{o}",
    "on L as l insert into Q select k, q as x from [select l.k as k, q from items] where q > 1 insert into Q select k, g as x; select k, sum(x) as s from Q group by k",
    "on L as l insert into Q select k, q as x from [select l.k as k, q from items] insert into Out select k, q as s from [select l.k as k, q from items] where q > 1 output all; select k, x, (select sum(s) from Out{v}) as o from Q",
    "insert into Q event-precedence(x) select k, x from {T}({w}); insert into Q event-precedence(1) select k, x + 10 as x from {T}; select k, x from Q",
    # windows and tables
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}on B as b select w.k as k, count(*) as n, sum(w.x) as s from W as w where w.g = b.g group by w.k having count(*) > 0 order by w.k; {c}select irstream k, sum(x) as s from W group by rollup(k){o}",
    "{c}create window W{v} as E; {c}on E merge W as w where 1 = 2 when not matched then insert select *; {c}select irstream x from W(x > 0){o}; {c}select k, x from {T} where exists (select * from W as w2 where w2.x = 3)",
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}on B as b update W as w set x = w.x + b.x, k = b.k where w.g = b.g and b.x > 0; {c}on B(x = 0) delete from W; {c}select irstream k, x from W; {c}select a.x as ax, w.x as wx from {T} as a unidirectional, W as w where w.k = a.k",
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}on B(x > 1) as b delete from W as w where w.g = b.g; {c}select * from W match_recognize (measures p.x as px, last(q.x) as qx pattern (p q+ r) define q as q.x > 0, r as r.x < 1)",
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}on B(x > 1) as b delete from W as w where w.k = b.k; {c}select irstream a.x as ax, b.x as bx, c.x as cx from W as a left outer join B#lastevent as b on a.k = b.k left outer join F#length(2) as c on a.g = c.g{o}",
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}select z.c as c, W.where(w => w.x > 1).countOf() as n, W.sumOf(w => w.x) as s from B as z; {c}on B as b select and delete w.k as k, w.x as x from W as w where w.x = 2",
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}create window W2#keepall as W; {c}on B({w}) insert into W2 select w.* from W as w where w.g = 1; {c}select irstream k, x from W2",
    "{c}create window W{v} as E; {c}insert rstream into W select * from {T}#time({p}); {c}select irstream k, count(*) as n from W group by k{o}",
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}select a.k as k, a.x as x from pattern [every a=W(x > 0) -> B]; {c}select a.x as x from pattern [every a=W({w}) -> timer:interval({p})]",
    "{c}create table T(k string primary key, g int, n count(*), s sum(int), f window(*) @type(E), l lastever(*) @type(E), m sorted(x) @type(E)); {c}into table T select count(*) as n, sum(x) as s, window(*) as f, lastever(*) as l, sorted(x) as m from E{v} group by k; {c}select k, T[k].n as n, T[k].s as s, T[k].f.first(x) as fx, T[k].l.x as lx, T[k].m.maxBy().d as md, T[k] is null as isn from B; {c}on B(x = 2) as b delete from T as t where t.n > 2",
    "{c}create table T(n count(*), s sum(int), w window(*) @type(E)); {c}into table T select count(*) as n, sum(x) as s, window(*) as w from E{v}; {c}select T.n as n, T.s as s, T.w.countOf() as c, T.w.last(x) as lx from B; {c}select k, x from {T} where x > T.n",
    "{c}create table T(k string primary key, g int primary key, s int); {c}on E as e merge T as t where t.k = e.k and t.g = e.g when matched and e.x < 0 then delete when matched then update set s = s + e.x when not matched then insert select e.k as k, e.g as g, e.x as s; {c}on B as b select t.k as k, t.g as g, sum(t.s) as s, count(*) as n from T as t where t.k = b.k group by t.k, t.g; {c}select t.s as s, b.x as x from B as b unidirectional, T as t where t.k = b.k; {c}select x, (select sum(s) from T where k = b.k) as m from B as b",
    "create table T(k string primary key, s int); on E as e merge T as t where t.k = e.k when not matched then insert select e.k as k, e.x as s when matched then update set s = t.s + 1; select k, T[k].s as s from E(T[k].s > 1); select x from E where T[k] is null; select * from T output snapshot every 1 sec",
    "{c}create table T(k string primary key, a sum(int), b sum(int), c avg(double)); {c}into table T select sum(x) as a, sum(x) as b from E group by k; {c}into table T select avg(d) as c from B{v} group by k; {c}select T[k].a as a, T[k].b as b, T[k].c as c from {T}",
    # subqueries
    "{c}select k, (select x from {U}{v} as i where i.g = e.g and i.x > e.x) as m, x in (select x from B{v}) as n, exists (select * from F{v} where k = e.k) as o from {T} as e{o}",
    "{c}select k, x from {T}(exists (select * from {U}{v} where x > 1)){v}",
    "{c}select k, (select k as kk, sum(x) as s from {U}{v} group by k having sum(x) > 1).countOf() as n, (select window(x) from B{v} as i where i.k = e.k) as w from {T} as e",
    "{c}select k, sum(x) as s, (select count(*) from {U}{v} as i where i.k = e.k) as n from {T}{v} as e group by k having sum(x) > (select count(*) from B{v}){o}",
    "{c}select x > all (select sum(x) from {U}{v} having count(*) > 1) as r, x from {T}",
    "{c}select irstream a.x as x, (select last(x) from B{v} as i where i.k = a.k) as m from {T}{v} as a, {U}#lastevent as z where a.g = z.g{o}",
    # patterns
    "{c}select a.x as ax, z.x as zx from pattern @SuppressOverlappingMatches [every a={T} -> z={U}(x > a.x)]",
    "{c}select a.x as ax, z.x as zx from pattern @DiscardPartialsOnMatch [every a={T}({w}) -> z={U}(k = a.k)]",
    "{c}select a.x as ax, count(*) as n from pattern [every a={T}({w}) -> timer:interval({p})]#time({p}) group by a.x{o}",
    "{c}select a.x as ax, z.x as zx from pattern [every a={T} -> z={U}(k = a.k) where timer:within({p})]#length(3) as p{o}",
    "{c}insert into Q select a.k as k, z.x as x from pattern [every a={T}({w}) -> z=B(k = a.k)]; {c}select irstream k, sum(x) as s, count(*) as n from Q{v} group by k{o}",
    "{c}on pattern [every a={T}({w}) -> timer:interval({u})] insert into Q select a.k as k, a.x as x where a.x > 0 insert into Out select a.k as k, 0 as s; {c}select irstream k, x from Q{v}; {c}select k, count(*) as n from Out group by k",
    "{c}create window W{v} as E; {c}insert into W select * from E; {c}on pattern [every a=B({w}) -> timer:interval({u})] delete from W where k = a.k; {c}select irstream k, x from W{o}",
    "select a.x as ax, b.x as bx from pattern [every a=E({w}) -> timer:interval({p})]#lastevent as p, B{v} as b",
    # match_recognize
    "{c}select * from {T}{v} match_recognize (partition by k measures p.x as px, count(q.x) as c after match skip to next row pattern (p q* r?) define q as q.x > 0, r as r.g = 2)",
    "{c}select * from {T} match_recognize (partition by k measures p.x as px, q.x as qx, r.x as rx pattern ((p q) | (q r) | r) interval {u} or terminated define p as p.x = 1, q as q.x = 2, r as r.x > 2)",
    "{c}insert into Q select * from {T} match_recognize (partition by k measures p.k as k, sum(q.x) as x pattern (p q+? r) define q as q.x > 0, r as r.x < 1); {c}select irstream k, x from Q{v}{o}",
    "{c}select * from {T}#keepall match_recognize (measures p.x as px, last(q.x) as qx all matches pattern (p q+) define q as q.x > prev(q.x))",
    # contained
    "{c}select k, q, (select count(*) from E{v} as i where i.k = l.k) as n from L[select k, q from items] as l{o}",
    "{c}select l.k as k, i.q as q, e.x as x from L[select k, q from items]#length(3) as i, E#lastevent as e, L#lastevent as l where l.k = e.k",
    "{c}insert into Q select k, q as x from L[select k, q from items where q > 0]; {c}select irstream k, sum(x) as s from Q{v} group by k{o}",
    "{c}create window W#keepall as E; {c}insert into W select * from E; {c}on L[select k, q from items] as b merge W as w where w.k = b.k when matched then update set x = b.q; {c}select k, q from L[select k, q from items]#unique(q){o}",
    # output
    "{c}select irstream k, g, sum(x) as s from {T}{v} group by k output {O}",
    "{c}select irstream k, sum(x) as s from {T}{v} group by k having sum(x) > 0 output {O}",
    "{c}select irstream x, prior(1, x) as p from {T}{v} output {O}",
    "{c}select irstream k, x, count(*) as n from {T}{v} output {O}",
    "{c}insert into Q select k, sum(x) as x from {T}{v} group by k output {O}; {c}select irstream k, x from Q{v}",
    "{c}select irstream a.k as k, count(*) as n from {T}{v} as a, B{v} as b where a.g = b.g group by a.k output {O}",
    # contexts of their own
    "create context N initiated by E({w}) as e terminated by B(k = e.k); context N select irstream context.e.x as cx, sum(x) as s from {T}{v} output {X}",
    "create context N initiated by E({w}) as e terminated after {u}; context N select context.e.k as ck, count(*) as n, max(x) as m from {T}(k = context.e.k){v} output {X}",
    "create context N start B as b end after {u}; context N select irstream k, sum(x) as s from E{v} group by k output {X}",
    "create context N initiated by pattern [every a=E({w}) -> b=B] terminated by F; context N select context.a.x as ax, istream() as i, x from E{v}",
    "create context N initiated by pattern [every a=E({w}) -> b=B] terminated by F; context N select context.a.x as ax, x from E{v}{o}; context N select * from pattern [every z=E(x = context.a.x) -> timer:interval({p})]",
    "create context N initiated by E(x = 1) as e terminated by pattern [B -> timer:interval({u})]; context N create window W{v} as E; context N insert into W select * from E(k = context.e.k); context N select irstream context.e.k as ck, sum(x) as s from W output {X}; context N on B as b select w.x as x from W as w where w.g = b.g",
    "create context N group by x > 1 as big, group by x < 2 as small from E; context N select context.label as l, count(*) as n, sum(x) as s from E{v}{o}; context N select * from E match_recognize (measures p.x as px, q.x as qx pattern (p q) define q as q.x > p.x)",
    "create context N partition by k from E, k from B initiated by E({w}) terminated by B(x > 2); context N select context.key1 as kk, x from E; context N create table T(n count(*)); context N into table T select count(*) as n from E; context N select T.n as n from B",
    "create context N partition by k from E, k from B terminated after {u}; context N create table T(g int primary key, n count(*)); context N into table T select count(*) as n from E group by g; context N select T[g].n as n from B; context N select irstream g, n from T output snapshot every {u}",
    "create context N start @now end after {u}; context N select irstream k, count(*) as n from E{v} group by k output {X}",
    "create context N initiated @now and pattern [every timer:interval({u})] terminated after {u}; context N select irstream count(*) as n, sum(x) as s from E output {X}",
    # chains
    "{c}insert into Q select k, x from {T}({w}); {c}insert into R select k, x, x as v from Q{v}; {c}select irstream k, sum(v) as s from R{v} group by k{o}; {c}select a.x as ax from pattern [every a=Q -> R(k = a.k)]",
    "{c}insert irstream into Q select k, x from {T}{v}; {c}select irstream k, x, istream() as i from Q{v}{o}; {c}select (select count(*) from Q{v}) as n from B",
)
