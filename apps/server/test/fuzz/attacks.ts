// Reads that try to learn hidden data: every way of the grammar to use a column or row without returning it. Two databases
// that differ only in hidden data must give the same answer.
import type { Sources } from './conditions.ts'
import type { Random } from './random.ts'
import { quoted } from './values.ts'
import type { Wire } from './wire.ts'

/** A table with hidden data, and how it is embedded in another table. */
interface Aim {
  table: string
  hidden: string
  parent: string
  embed: string
}
const aim = (table: string, hidden: string, parent: string, embed: string): Aim => ({
  table,
  hidden,
  parent,
  embed,
})
const aims: readonly Aim[] = [
  aim('vault', 'secret', 'tasks', 'vault'),
  aim('vault', 'secret', 'tasks', 'vault'),
  aim('vault', 'pin', 'tasks', 'vault'),
  aim('sealed', 'secret', 'people', 'sealed'),
  aim('people', 'name', 'teams', 'people'),
  aim('people', 'age', 'tasks', 'people!author_id'),
  aim('tasks', 'title', 'labels', 'tasks'),
  aim('teams', 'motto', 'people', 'teams'),
]

/** Every order is total, so that only hidden data can make a difference. */
const ways = `
{table}?select=id&order=id&{hidden}={test}
{table}?select=id&order=id&{hidden}=not.{test}
{table}?select=id&order=id&or=(id.eq.0,{hidden}.{protected})
{table}?select=id&order=id&not.and=({hidden}.{protected})
{table}?select=id&order={hidden},id
{table}?select=id&order={hidden}.desc.nullslast,id&limit=3
{table}?select=id&order={hidden}.nullsfirst,id&offset=2&limit=1
{table}?select={hidden}&order=id
{table}?select=id,x:{hidden}::text&order=id&limit=5
{table}?select=id,x:{hidden}->a&order=id
{table}?select={hidden}.count()
{table}?select={hidden}.max(),y:{hidden}.min()
{table}?select={hidden},count()
{table}?select=count
{table}?order=id
{parent}?select=id,x:{embed}({hidden})&order=id&x.order=id
{parent}?select=id,x:{embed}(count)&order=id
{parent}?select=id,x:{embed}!inner(id)&order=id&x.order=id
{parent}?select=id,x:{embed}!inner(id)&order=id&x.order=id&x.{hidden}={test}
{parent}?select=id,x:{embed}()&order=id&x=is.null
{parent}?select=id,x:{embed}()&order=id&x=not.is.null&x.{hidden}={test}
{parent}?select=id,x:{embed}(id)&order=id&x.order=id&x.or=({hidden}.{protected})
{parent}?select=id,x:{embed}(id)&order=id&x.order=id&or=(id.eq.0,x.not.is.null)&x.{hidden}={test}
{parent}?select=id,x:{embed}(id)&order=id&x.order={hidden},id&x.limit=1
{parent}?select=id,x:{embed}(id)&order=x({hidden}),id&limit=5
{parent}?select=id,...{embed}(x:{hidden})&order=id
rpc/find_people?needle={guess}&order=id
rpc/people_of?team={guess}&order=id&name={test}
open_tasks?select=id&order=id&title={test}
team_sizes?order=team_id
`
  .trim()
  .split('\n')

export function anyAttack(from: Sources): Wire {
  const { random } = from
  const chosen = random.pick(aims)
  const guess = guessOf(from, chosen)
  const [operator, value] = operationOn(random, guess)
  const texts: Record<string, string> = {
    ...chosen,
    guess,
    test: `${operator}.${value}`,
    protected: `${operator}.${/^\(|^null$/.test(value) ? value : quoted(value)}`,
  }
  const filled = (text: string) => text.replace(/\{(\w+)\}/g, (_, name: string) => texts[name]!)
  const [path, query] = random.pick(ways).split('?') as [string, string]
  const params = query.split('&').map(each => each.split(/=(.*)/s, 2).map(filled) as [string, string])
  return {
    who: random.pick(['anon', 'user1']),
    method: random.chance(0.15) ? 'HEAD' : 'GET',
    path: filled(path),
    params,
    headers: random.chance(0.5) ? { prefer: `count=${random.pick(['exact', 'planned', 'estimated'])}` } : {},
  }
}

/** An existing value or a prefix of one. */
function guessOf({ random, data }: Sources, { table, hidden }: Aim): string {
  const found = random.pick(data[table]!)[hidden] ?? '7391'
  return random.chance(0.5) ? found : found.slice(0, random.int(1, found.length))
}

const operationOn = (random: Random, guess: string): readonly [operator: string, value: string] =>
  random.pick([
    ['eq', guess],
    ['neq', guess],
    ['gt', guess],
    ['lte', guess],
    ['like', `${guess.replaceAll('\\', '')}*`],
    ['match', `^${guess.replace(/[^\w-].*/s, '')}`],
    ['in', `(${quoted(guess)})`],
    ['is', 'null'],
    ['isdistinct', guess],
  ])
