// Reads that the oracle does not support: the rest of the contract, and names that do not exist.
import type { Sources } from './conditions.ts'
import { anyRead } from './generator.ts'
import { nameMark, valueMark } from './markers.ts'
import type { Random } from './random.ts'
import { rightValue } from './values.ts'
import { type Wire, writeRead } from './wire.ts'

type Param = Wire['params'][number]
const choose = (random: Random, words: string) => random.pick(words.split(' '))

/** A read with one or two features whose result the oracle cannot compute. */
export function wildRead(from: Sources): Wire {
  const { random } = from
  const wire = writeRead(anyRead(from))
  const extra = [wildParam(random), ...random.pick([[], [wildParam(random)], wildEmbed(random)])]
  const replaced = new Set(extra.map(([name]) => name))
  const kept = wire.params.filter(([name]) => !replaced.has(name))
  const headers = random.chance(0.4) ? { ...wire.headers, ...wildHeaders(random) } : wire.headers
  return { ...wire, params: [...kept, ...extra], headers }
}

const types =
  'int text jsonb date bool numeric uuid tsvector mood double%20precision unknown regclass nowhere'

function wildParam(random: Random): Param {
  const name = nameMark(random)
  return random.pick<() => Param>([
    () => ['select', `id,${name}:name::${decodeURIComponent(choose(random, types))}`],
    () => ['select', `${name}:meta->c->d->0,${name}x:nums->1`],
    () => ['select', `id,...tasks!author_id(${name}:title,${name}y:points)`],
    () => ['select', `mood,tasks!author_id(done,points.sum(),count())`],
    () => ['select', 'count()'],
    () => ['select', `id,"${name}":name,${name}:"nick"`],
    () => ['select', ` id , ${name} : name ,teams ( id , name ) `],
    () => ['select', `id,${name}`],
    () => ['select', `id,${name}(id)`],
    () => ['select', `id,teams!${name}(id)`],
    () => ['select', 'id,teams(),badges!inner()'],
    () => ['select', 'id,tasks(id)'],
    () => ['select', 'a:people(b:people(c:people(d:people(e:people(f:people(id))))))'],
    () => ['select', 'meta->c,meta->"a b",meta->a-b'],
    () => ['order', `${name}.desc`],
    () => ['order', 'tasks(title).asc'],
    () => ['order', 'meta->c->>e.desc.nullsfirst,nums->0'],
    () => ['order', 'name.l2.[1,2,3]'],
    () => ['limit', choose(random, '-1 0 7391 7391000000 x 1.5 99999999999999999999')],
    () => ['offset', choose(random, '-1 0 7391 739100000 x 9223372036854775807 99999999999999999999')],
    () => [name, `eq.${valueMark(random)}`],
    () => [`teams.${name}`, `eq.${valueMark(random)}`],
    () => ['name', `fts(${name}).${valueMark(random)}`],
    () => ['name', `match.${choose(random, '[ ( *a (?<x>a) \\ a{99999} (((((a*)*)*)*)*)')}`],
    () => ['name', `like.${valueMark(random)}\\`],
    () => ['age', `${choose(random, 'l2 cosine ip')}.[${valueMark(random)}]`],
    () => ['is_active', `is.${choose(random, 'NULL True not_null nothing')}`],
    () => ['nums', `cs.{${rightValue('int', random)},${valueMark(random)}}`],
    () => ['meta->a', `in.(${rightValue('int', random)},"x")`],
    () => ['or', `(name.eq.${valueMark(random)},${name}.gt.1)`],
    () => ['on_conflict', 'id'],
  ])()
}

/** Embeds with their own pages and filters. */
function wildEmbed(random: Random): Param[] {
  const name = nameMark(random)
  const select: Param = [
    'select',
    `id,${name}:${choose(random, 'tasks!author_id people!manager_id notes')}(id)`,
  ]
  return [
    select,
    random.pick<Param>([
      [`${name}.limit`, choose(random, '0 -1 7391 739100000 x 99999999999999999999')],
      [`${name}.offset`, choose(random, '-1 7391 739100000 x 99999999999999999999')],
      [`${name}.order`, `id.${choose(random, 'desc up asc.asc nullsfirst.nullslast')}`],
      [`${name}.select`, 'id'],
      [`${name}.or`, `(id.eq.7391,${nameMark(random)}.is.null)`],
      [name, `eq.${valueMark(random)}`],
    ]),
  ]
}

const wildHeaders = (random: Random): Record<string, string> =>
  random.pick<Record<string, string>>([
    { accept: 'text/csv' },
    { accept: 'application/vnd.pgrst.object+json;nulls=stripped' },
    { accept: 'application/vnd.pgrst.plan+text; for="application/json"; options=analyze|verbose;' },
    { accept: 'application/geo+json' },
    { accept: 'text/html,application/json;q=0.9,*/*;q=0.1' },
    { 'accept-profile': 'public' },
    { 'accept-profile': 'auth' },
    { prefer: `timezone=${random.pick(['Europe/Vienna', valueMark(random)])}` },
    { prefer: 'handling=strict,count=exact' },
    { prefer: `handling=strict,${nameMark(random)}=1` },
    { prefer: 'count=exact, return=representation , tx=rollback' },
    { range: `${random.int(0, 9)}-${random.int(0, 20)}`, prefer: 'count=exact' },
  ])
