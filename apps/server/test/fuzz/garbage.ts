// Garbage that is inserted into requests.

const lines = (text: TemplateStringsArray) => String.raw(text).trim().split('\n')
const words = (text: TemplateStringsArray) => String.raw(text).trim().split(/\s+/)

export const specials = [
  ...'\'"`;()[]{}<>,.:*%&=#+!|~^$@?/\\ \t\n\r-_',
  ...'\0\u00a0\u202e\ufeff😀',
  '\ud800',
  ...words`-> ->> :: ... !! == ＳＥＬＥＣＴ`,
]

export const numbers = [
  '',
  ...words`-1 0 -0 1e309 NaN Infinity 0x10 2147483648 -2147483649 9223372036854775808 99999999999999999999999999
    1.0 0.1 ٣ 1_000 null true`,
]

export const injections = lines`
' or '1'='1
'; drop table people; --
"; drop table people; --
1; select pg_sleep(9)
') or (1=1
$$; select 1; $$
\'; select 1; --
1) union select secret from vault --
/* */
E'\x27'
{{7*7}}
%27%20or%201=1
'||(select secret from sealed)||'
pg_sleep(9)
$1
%s
\
`

/** For a query string that is sent without encoding. */
export const rawGarbage = words`% %zz %00 %c3%28 %ed%a0%80 %u0041 %25%32%37 && ? = &= %2 #`

export const operators = words`EQ xx not not.not eq(any in fts( l2 is.not_null like(all)`

export const paths = [
  '',
  ...words`pg_roles pg_stat_activity auth.users pg_catalog.pg_class information_schema.tables people/ people/1
    ../people %2e%2e/people /people rpc rpc/ rpc/pg_sleep rpc/pg_read_file rpc/set_config rpc/for_nobody rpc/headline
    rpc/mentor rpc/lo_import Odd%20Names PEOPLE __proto__`,
]

export const methods = words`GET HEAD PUT PATCH DELETE OPTIONS PURGE`

export const paramNames = [
  '',
  ...words`select order limit offset columns on_conflict or and not.or not.and id people.id . a.b.c.d __proto__
    constructor`,
]

export const headers: Readonly<Record<string, readonly string[]>> = {
  prefer: [
    ...words`return=everything count=all handling=strict,x=y handling=strict,tx=maybe ,,, a=b=c max-affected=x
      timezone=Nowhere/At_All count=exact,count=planned resolution=none missing=everything tx=rollback`,
    'return=representation; q="',
  ],
  accept: words`text/csv image/png application/vnd.pgrst.plan+json application/* * ;;; application/json;q=x text/plain
    application/octet-stream application/vnd.pgrst.object application/geo+json text/xml`,
  range: words`0- -5 5-1 a-b bytes=0-5 0-99999999999999999999 1-2,4-5`,
  'accept-profile': ['', ...words`auth platform pg_catalog information_schema nowhere PUBLIC`],
  'content-profile': ['', ...words`auth platform pg_catalog nowhere`],
  'content-type': [
    ...words`text/csv text/plain application/x-www-form-urlencoded x multipart/form-data application/octet-stream`,
    'application/json; charset=latin1',
  ],
  'content-encoding': words`gzip br x`,
  authorization: ['', 'Bearer x', 'Basic eDp5', 'Bearer ey.ey.ey'],
}
