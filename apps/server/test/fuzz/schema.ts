// The tables of schema.sql, for the generator, the data and the oracle.

export type Kind =
  | 'int'
  | 'bigint'
  | 'numeric'
  | 'float'
  | 'text'
  | 'bool'
  | 'timestamptz'
  | 'date'
  | 'uuid'
  | 'jsonb'
  | 'int[]'
  | 'text[]'
  | 'int4range'
  | 'mood'
  | 'tsvector'

export interface Column {
  name: string
  kind: Kind
  /** Not granted to anon and authenticated. */
  isSecret?: true
  /** A function of the row, which `*` does not include. */
  isComputed?: true
}

export interface Relation {
  /** Names of the relation in a select, with a hint if needed. The first part is the key of the result. */
  spellings: readonly string[]
  target: string
  isMany: boolean
  /** The FROM clause and the condition for rows `t` of the target that belong to the row `b`. */
  from: string
  on: string
}

export interface Table {
  name: string
  key: readonly string[]
  columns: readonly Column[]
  relations: readonly Relation[]
}

const column = (name: string, kind: Kind): Column => ({ name, kind })
const columns = (kinds: Partial<Record<Kind, string>>): Column[] =>
  Object.entries(kinds).flatMap(([kind, names]) => names.split(' ').map(name => column(name, kind as Kind)))

const one = (spellings: string, target: string, from: string): Relation =>
  relation(spellings, target, false, `t.id = b.${from}`)
const many = (spellings: string, target: string, column: string, to = 'id'): Relation =>
  relation(spellings, target, true, `t.${column} = b.${to}`)
const relation = (spellings: string, target: string, isMany: boolean, on: string): Relation => ({
  spellings: spellings.split(' '),
  target,
  isMany,
  from: `public."${target}" t`,
  on,
})
const throughTaskLabels = (task: string, label: string) =>
  `exists (select from public.task_labels j where j.task_id = ${task}.id and j.label_id = ${label}.id)`

export const tables: readonly Table[] = [
  {
    name: 'teams',
    key: ['id'],
    columns: columns({
      int: 'id',
      bool: 'is_open',
      text: 'name motto',
      numeric: 'budget',
      date: 'founded',
      'text[]': 'perks',
    }),
    relations: [
      many('people people!team_id people!people_team_id_fkey', 'people', 'team_id'),
      many('tasks tasks!tasks_team_id_fkey', 'tasks', 'team_id'),
    ],
  },
  {
    name: 'people',
    key: ['id'],
    columns: columns({
      int: 'id team_id manager_id age',
      bool: 'is_open is_active',
      uuid: 'owner badge_key',
      text: 'name nick',
      bigint: 'big',
      numeric: 'score',
      float: 'ratio',
      date: 'born',
      timestamptz: 'seen_at',
      jsonb: 'meta',
      'int[]': 'nums',
      'text[]': 'tags',
      int4range: 'span',
      mood: 'mood',
      tsvector: 'search',
    }),
    relations: [
      one('teams teams!team_id teams!people_team_id_fkey team_id', 'teams', 'team_id'),
      one('manager_id', 'people', 'manager_id'),
      many('people!manager_id', 'people', 'manager_id'),
      { ...one('badges', 'badges', 'id'), on: 't.person_id = b.id' },
      many('tasks!author_id tasks!tasks_author_id_fkey', 'tasks', 'author_id'),
      many('tasks!reviewer_id tasks!tasks_reviewer_id_fkey', 'tasks', 'reviewer_id'),
      many('open_tasks', 'open_tasks', 'author_id'),
      many('sealed', 'sealed', 'person_id'),
      many('notes', 'notes', 'person_id'),
      { ...many('mentor', 'people', 'id'), isMany: false, from: 'public.mentor(b) t', on: 'true' },
      { ...many('', 'Odd Names', 'person_id'), spellings: ['"Odd Names"'] },
    ],
  },
  {
    name: 'badges',
    key: ['person_id'],
    columns: columns({ int: 'person_id level', text: 'code', timestamptz: 'issued' }),
    relations: [one('people people!person_id person_id', 'people', 'person_id')],
  },
  {
    name: 'tasks',
    key: ['id'],
    columns: [
      ...columns({
        int: 'id author_id reviewer_id team_id',
        bool: 'is_open done',
        text: 'title',
        jsonb: 'meta',
        numeric: 'points',
        timestamptz: 'due',
      }),
      { ...column('headline', 'text'), isComputed: true },
    ],
    relations: [
      one('people!author_id people!tasks_author_id_fkey author_id', 'people', 'author_id'),
      one('people!reviewer_id people!tasks_reviewer_id_fkey reviewer_id', 'people', 'reviewer_id'),
      one('teams', 'teams', 'team_id'),
      relation('labels labels!task_labels', 'labels', true, throughTaskLabels('b', 't')),
      many('task_labels', 'task_labels', 'task_id'),
      many('vault', 'vault', 'task_id'),
    ],
  },
  {
    name: 'labels',
    key: ['id'],
    columns: columns({ int: 'id', text: 'name color' }),
    relations: [
      relation('tasks tasks!task_labels', 'tasks', true, throughTaskLabels('t', 'b')),
      many('task_labels', 'task_labels', 'label_id'),
    ],
  },
  {
    name: 'task_labels',
    key: ['task_id', 'label_id'],
    columns: columns({ int: 'task_id label_id weight' }),
    relations: [one('tasks', 'tasks', 'task_id'), one('labels label_id', 'labels', 'label_id')],
  },
  {
    name: 'vault',
    key: ['id'],
    columns: [
      ...columns({ int: 'id task_id', text: 'label' }),
      { ...column('secret', 'text'), isSecret: true },
      { ...column('pin', 'int'), isSecret: true },
    ],
    relations: [one('tasks', 'tasks', 'task_id')],
  },
  {
    name: 'sealed',
    key: ['id'],
    columns: [...columns({ int: 'id person_id' }), { ...column('secret', 'text'), isSecret: true }],
    relations: [one('people', 'people', 'person_id')],
  },
  {
    name: 'Odd Names',
    key: ['the id'],
    columns: [
      ...['the id', 'person_id', 'pa(ren)s'].map(name => column(name, 'int')),
      ...['col,umn', 'dot.ted', 'quo"te', 'back\\slash', 'ünï', 'select'].map(name => column(name, 'text')),
    ],
    relations: [one('people', 'people', 'person_id')],
  },
  {
    name: 'open_tasks',
    key: ['id'],
    columns: columns({ int: 'id author_id', text: 'title', numeric: 'points' }),
    relations: [one('people', 'people', 'author_id')],
  },
  {
    name: 'team_sizes',
    key: ['team_id'],
    columns: columns({ int: 'team_id', bigint: 'members' }),
    relations: [],
  },
  {
    name: 'notes',
    key: ['id'],
    columns: columns({
      int: 'id stars person_id',
      text: 'slug title',
      jsonb: 'payload',
      'text[]': 'tags',
      mood: 'mood',
      timestamptz: 'created_at',
    }),
    relations: [one('people', 'people', 'person_id')],
  },
  { name: 'pairs', key: ['a', 'b'], columns: columns({ int: 'a b', text: 'value' }), relations: [] },
  { name: 'lines', key: [], columns: columns({ text: 'line', int: 'level' }), relations: [] },
]

export function tableNamed(name: string): Table {
  const found = tables.find(table => table.name === name)
  if (!found) throw new Error(`schema.ts has no table ${name}`)
  return found
}

/** The only tables whose rows requests may change. */
export const writableTables = ['notes', 'pairs', 'lines'].map(tableNamed)
export const readableTables = tables.filter(table => !writableTables.includes(table))

export function columnOf(table: Table, name: string): Column {
  const found = table.columns.find(column => column.name === name)
  if (!found) throw new Error(`schema.ts has no column ${table.name}.${name}`)
  return found
}
