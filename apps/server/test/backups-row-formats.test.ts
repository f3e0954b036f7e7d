// Rows of a backup: in the binary format of COPY where all values of a table have the same form in every database.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { archiveOf } from './archive-of.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: BackedUpProject
before(async () => {
  platform = await startPlatform()
  project = await backedUpProject(platform)
  await project.backups.configure({ params: { id: project.id }, body: { verify_enabled: false } })
  await project.sql(schema)
})
after(() => platform?.stop())

const inBinary = [
  'bool',
  'int2',
  'int4',
  'int8',
  'float4',
  'float8',
  'numeric(20, 5)',
  'numeric',
  'text',
  'varchar(20)',
  'char(20)',
  'bytea',
  'uuid',
  'json',
  'jsonb',
  'date',
  'time(3)',
  'timetz',
  'timestamp',
  'timestamptz',
  'interval',
  'inet',
  'cidr',
  'tsvector',
]
/** Their binary form contains numbers of types and relations, needs settings, or changes with a restore. */
const inText = [
  'regclass',
  'regtype',
  'mood[]',
  'pair',
  'positive',
  'money',
  'xid8',
  'point',
  'int4range',
  'xml',
]

const columns = (types: readonly string[]) => types.map((type, at) => `c${at} ${type}`).join(', ')
const schema = `
  create type mood as enum ('good', 'bad');
  create type pair as (first mood, second text);
  create domain positive as int check (value > 0);
  create table scalars (id int primary key, mood mood, ${columns(inBinary)});
  create table arrays (id int primary key, ${columns(inBinary.map(type => `${type}[]`))});
  create table derived (id int primary key, twice int generated always as (id * 2) stored, gone money);
  alter table derived drop column gone;
  create table empty (id int);
  create table emptied as select 1 as id;
  delete from emptied;
  create table bare ();
  insert into bare select from generate_series(1, 3);
  insert into derived select n from generate_series(1, 100) n;
  insert into scalars values
    (1, 'good', true, -32768, -2147483648, -9223372036854775808, '-Infinity', '-0', -123456789012345.54321, '-Infinity', '',
     '', '', '', '00000000-0000-0000-0000-000000000000', '{"b" :1, "a":2, "b":3}', '{"b": 1e400, "a": null}', '-infinity',
     '00:00', '24:00:00+14', '-infinity', '-infinity', '-178000000 years', '::/0', '0.0.0.0/0', ''),
    (2, 'bad', false, 32767, 2147483647, 9223372036854775807, 'NaN', 'NaN', 'NaN', 1e-300, E'tab\\t \\\\N \\\\. \\r\\n ü 😀',
     'ü', 'x', '\\x00ff', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '"\\\\u00fc"', '[1.10, "\\\\u00fc", {}]', 'infinity',
     '23:59:59.999', '12:00:00.000001-12', 'infinity', 'infinity', '1 year -1 day 00:00:00.000001', 'fe80::1/64',
     '10.0.0.0/8', '''a b'':1A c:2,3B'),
    (3, null${', null'.repeat(inBinary.length)}),
    (4, 'good', true, 1, 1, 1, 1e-45, 5e-324, 1.5, 1.500, repeat('long ', 500000), 'v', 'c', decode(repeat('00ff', 1000000), 'hex'),
     gen_random_uuid(), '[]', '{}', '2024-02-28 BC', '12:00', '12:00+00', '2024-02-28 12:00 BC', '2024-02-29 12:00+05',
     '1 mon', '10.1.2.3', '10.1.2.0/24', 'b a c');
  insert into arrays select id, ${inBinary.map((_, at) => `array[c${at}, null]`).join(', ')} from scalars;
  insert into arrays (id, c2) values (5, '[-3:-2][5:6]={{1,2},{3,null}}'), (6, '{}'), (7, (array[1, 2, null])[1:2]);
  update arrays set c${inBinary.indexOf('text')}[2] = 'not null any more';
  create table named (id int primary key, ${columns(inText)});
  insert into named values (1, 'scalars', 'mood', '{good,bad}', '(bad,"a, b")', 1, '12.34', '7', '(1,2)', '[1,5)', '<a>1</a>')`

const tables = ['scalars', 'arrays', 'derived', 'bare', 'named']
const rowsAsText = async () =>
  Object.fromEntries(
    await Promise.all(
      tables.map(async table => [
        table,
        await project.rows(`select t::text as row from public.${table} t order by 1`),
      ]),
    ),
  )

test('backups: rows of every type are the same after a restore, whichever format they are stored in', async () => {
  const before = await rowsAsText()
  const { id } = await project.backUp()
  const { archive } = await archiveOf(platform, project.id, id)
  const found = archive.manifest.database.tables.filter(({ name }) => name.startsWith('public.'))
  const formats = Object.fromEntries(found.map(({ name, isBinary = false }) => [name, isBinary]))
  assert.deepEqual(formats, {
    'public.scalars': true,
    'public.arrays': false,
    'public.derived': true,
    'public.bare': true,
    'public.empty': false,
    'public.emptied': false,
    'public.named': false,
  })
  for (const { name, file } of found) assert.equal(file.bytes === 0, name.startsWith('public.empt'), name)
  assert.equal((await project.verify(id)).verify_error, null)
  await project.sql(tables.map(table => `drop table ${table}`).join(';'))
  const { status, error } = await project.restore(id)
  assert.deepEqual([status, error], ['done', null])
  assert.deepEqual(await rowsAsText(), before)
})
