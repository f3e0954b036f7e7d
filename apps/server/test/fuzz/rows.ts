// The rows of one database. All variants have the same rows and columns that their caller may see, and different hidden data
// in content and number. No answer to that caller may depend on the variant.
import { type Audience, canary, numberMark } from './markers.ts'
import { createRandom, type Random } from './random.ts'
import { type Table, tableNamed } from './schema.ts'
import { rightValue } from './values.ts'

export type Row = Record<string, string | null>
export type Data = Readonly<Record<string, readonly Row[]>>

/** `left`, and its copies for anon and for user1. */
export type Variant = 'left' | 'for-anon' | 'for-user1'

export const users = {
  user1: `${numberMark}aaaa-0000-4000-8000-000000000001`,
  user2: `${numberMark}bbbb-0000-4000-8000-000000000002`,
}

const hiddenFrom: Record<Variant, readonly Audience[]> = {
  left: [],
  'for-anon': ['auth', 'u1', 'u2', 'svc', 'none'],
  'for-user1': ['u2', 'svc', 'none'],
}
const counts = { teams: 16, people: 110, tasks: 180, labels: 10, vault: 80, sealed: 30, odd: 24, notes: 30 }
const extraRows = 9

export function makeData(seed: string, variant: Variant): Data {
  const differs = (audience: Audience) => hiddenFrom[variant].includes(audience)
  const extra = differs('svc') ? extraRows : 0

  /** Random numbers for the parts of a row that all variants share. */
  const fixed = (table: string, number: number) => createRandom(`${seed}:${table}:${number}`)
  const content = (table: string, number: number, audience: Audience) =>
    createRandom(`${seed}:${table}:${number}:${differs(audience) ? variant : 'same'}`)

  function row(name: string, number: number, audience: Audience, given: Row): Row {
    const table = tableNamed(name)
    return { ...filled(table, audience, content(name, number, audience)), ...given }
  }
  const person = (number: number, isExtra = false) => {
    const random = fixed('people', number)
    const isOpen = !isExtra && random.chance(0.6)
    const owner = isExtra ? null : random.pick([null, users.user1, users.user2])
    return { random, isOpen, owner, audience: isOpen ? 'open' : audienceOf(owner) }
  }
  const task = (number: number, isExtra = false) => {
    const random = fixed('tasks', number)
    const author = isExtra || random.chance(0.1) ? undefined : random.int(1, counts.people)
    const isOpen = !isExtra && random.chance(0.6)
    const owner = author === undefined ? null : person(author).owner
    return { random, author, isOpen, audience: isOpen ? 'open' : audienceOf(owner) }
  }
  const anyId = (random: Random, name: keyof typeof counts) =>
    random.chance(0.1) ? null : idOf(name, random.int(1, counts[name]))

  const allPeople = [...numbers(counts.people), ...numbers(extra, counts.people)]
  const allTasks = [...numbers(counts.tasks), ...numbers(extra, counts.tasks)]

  return {
    teams: numbers(counts.teams).map(number => {
      const isOpen = fixed('teams', number).chance(0.7)
      const given = { id: idOf('teams', number), is_open: String(isOpen) }
      return row('teams', number, isOpen ? 'open' : 'auth', given)
    }),
    people: allPeople.map(number => {
      const { random, isOpen, owner, audience } = person(number, number > counts.people)
      const references = { team_id: anyId(random, 'teams'), manager_id: anyId(random, 'people') }
      const given = { id: idOf('people', number), is_open: String(isOpen), owner, ...references }
      return row('people', number, audience, given)
    }),
    badges: allPeople.flatMap(number => {
      const { random, audience } = person(number, number > counts.people)
      const hasOne = random.chance(0.6)
      return hasOne ? [row('badges', number, audience, { person_id: idOf('people', number) })] : []
    }),
    tasks: allTasks.map(number => {
      const { random, author, isOpen, audience } = task(number, number > counts.tasks)
      return row('tasks', number, audience, {
        id: idOf('tasks', number),
        is_open: String(isOpen),
        author_id: author === undefined ? null : idOf('people', author),
        reviewer_id: anyId(random, 'people'),
        team_id: anyId(random, 'teams'),
      })
    }),
    labels: numbers(counts.labels).map(number =>
      row('labels', number, 'open', { id: idOf('labels', number) }),
    ),
    task_labels: allTasks.flatMap(number => {
      const { random, audience } = task(number, number > counts.tasks)
      const chosen = differs(audience) ? content('task_labels', number, audience) : random
      return chosen.sample(numbers(counts.labels), chosen.int(0, 3)).map(label =>
        row('task_labels', number * 100 + label, audience, {
          task_id: idOf('tasks', number),
          label_id: idOf('labels', label),
        }),
      )
    }),
    vault: numbers(counts.vault).map(number => {
      const hidden = content('vault', -number, 'svc')
      return row('vault', number, 'open', {
        id: idOf('vault', number),
        task_id: anyId(fixed('vault', number), 'tasks'),
        secret: canary('svc', hidden),
        pin: rightValue('int', hidden),
      })
    }),
    sealed: [...numbers(counts.sealed), ...numbers(extra, counts.sealed)].map(number => {
      const hidden = content('sealed', number, 'none')
      const given = { id: idOf('sealed', number), person_id: anyId(hidden, 'people') }
      return row('sealed', number, 'none', given)
    }),
    'Odd Names': numbers(counts.odd).map(number =>
      row('Odd Names', number, 'open', {
        'the id': idOf('odd', number),
        person_id: anyId(fixed('odd', number), 'people'),
      }),
    ),
    notes: numbers(counts.notes).map(number =>
      row('notes', number, 'open', {
        id: idOf('notes', number),
        slug: `slug-${number}`,
        title: `note ${number}`,
        stars: String(number % 10),
        person_id: anyId(fixed('notes', number), 'people'),
      }),
    ),
    pairs: numbers(12).map(number =>
      row('pairs', number, 'open', { a: String(number % 4), b: String(number) }),
    ),
    lines: numbers(5).map(number => row('lines', number, 'open', {})),
  }
}

const audienceOf = (owner: string | null): Audience =>
  owner === users.user1 ? 'u1' : owner === users.user2 ? 'u2' : 'svc'

const numbers = (count: number, after = 0) => Array.from({ length: count }, (_, at) => after + at + 1)

const idOf = (table: keyof typeof counts, number: number) =>
  `${numberMark}${Object.keys(counts).indexOf(table) + 10}${String(number).padStart(3, '0')}`

/** Fills most columns. Texts of rows that are not visible to everybody contain a canary. */
function filled(table: Table, audience: Audience, random: Random): Row {
  const row: Row = {}
  for (const { name, kind, isComputed } of table.columns) {
    if (isComputed) continue
    const value = random.chance(0.15) ? null : rightValue(kind, random)
    row[name] = kind === 'text' && audience !== 'open' ? `${canary(audience, random)} ${value ?? ''}` : value
  }
  return row
}

/** One INSERT per table, parents first. */
export function insertStatements(data: Data): string[] {
  return Object.entries(data).map(([name, rows]) => {
    const table = tableNamed(name)
    const columns = table.columns.filter(({ isComputed }) => !isComputed).map(({ name }) => name)
    const lines = rows.map(row => `(${columns.map(column => literal(row[column] ?? null)).join(', ')})`)
    const names = columns.map(column => `"${column.replaceAll('"', '""')}"`).join(', ')
    return `insert into public."${name}" (${names}) values\n${lines.join(',\n')}`
  })
}

const literal = (value: string | null) => (value === null ? 'null' : `'${value.replaceAll("'", "''")}'`)
