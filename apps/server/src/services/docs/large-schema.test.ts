// Documents and types of projects with very many tables are built in slices and have a bounded size.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce, type Sliced } from '#src/kernel/slices.ts'
import type { CompositeType, Description, Relation, TypeInfo } from '#src/query/description.ts'
import { drizzle } from '../types/drizzle/document.ts'
import { typescript } from '../types/typescript/document.ts'
import { projectDocument } from './document.ts'
import { maxParts } from './json-schema.ts'
import { page } from './page.ts'

const text = 25
const base = (more: Partial<TypeInfo>): TypeInfo => ({
  schema: 'pg_catalog',
  name: 'text',
  kind: 'base',
  of: 0,
  relation: 0,
  labels: [],
  castsToJson: false,
  ...more,
})

function table(name: string, columns: number, type = text): Relation {
  const rights = { select: true, insert: true, update: true }
  return {
    oid: 1,
    schema: 'public',
    name,
    kind: 'table',
    comment: null,
    columns: Array.from({ length: columns }, (_, at) => ({
      name: `c${at}`,
      type,
      sqlType: 'text',
      isNullable: true,
      default: null,
      identity: null,
      isGenerated: false,
      isSerial: false,
      isUpdatable: true,
      comment: null,
      anon: rights,
    })),
    isInsertable: true,
    isUpdatable: true,
    isDeletable: true,
    primaryKey: null,
    uniques: [],
    relationships: [],
    computed: [],
    anonMayDelete: true,
    anonMayUse: true,
  }
}

const describe = (relations: Relation[], more: Partial<Description> = {}): Description => ({
  schemas: ['public'],
  relations,
  functions: [],
  enums: [],
  composites: [],
  types: new Map([[text, base({})]]),
  ...more,
})
const subject = {
  projectId: 'p',
  baseUrl: '',
  audience: 'anon',
  schemas: ['public'],
  defaultSchema: 'public',
} as const

function slicesOf(work: Sliced<unknown>): number {
  for (let slices = 1; ; slices++) if (work.next().done) return slices
}

test('docs: the number of slices grows with the number of tables', () => {
  const some = describe(Array.from({ length: 400 }, (_, at) => table(`t${at}`, 20)))
  for (const [what, work] of Object.entries({
    document: projectDocument(some, subject),
    typescript: typescript(some),
    drizzle: drizzle(some),
    page: page(atOnce(projectDocument(some, subject))),
  }))
    assert.ok(slicesOf(work) >= 20, what)
  assert.ok(slicesOf(projectDocument(describe([table('wide', 1600)]), subject)) >= 8, 'one wide table')
})

test('docs: tables whose names map to the same identifier get different ones', () => {
  const names = Array.from({ length: 3000 }, (_, at) => `${'_'.repeat(at + 1)}é`)
  const { components } = atOnce(
    projectDocument(describe(names.map(name => table(name, 1))), subject),
  ) as unknown as { components: { schemas: object } }
  assert.equal(Object.keys(components.schemas).length, names.length + 1)
  const constants = atOnce(drizzle(describe(names.map(name => table(name, 1))))).match(/^export const \S+/gm)!
  assert.equal(new Set(constants).size, names.length)
})

test('docs: nested composite types are written up to a bounded size', () => {
  // Eight levels of types with ten attributes each: 10 to the 8th attributes without the bound.
  const types = new Map<number, TypeInfo>([[text, base({})]])
  const composites: CompositeType[] = []
  for (let level = 0; level < 8; level++) {
    const name = `level${level}`
    types.set(1000 + level, base({ schema: 'public', name, kind: 'composite' }))
    const type = level === 7 ? text : 1001 + level
    composites.push({
      schema: 'public',
      name,
      attributes: Array.from({ length: 10 }, (_, at) => ({ name: `a${at}`, type })),
    })
  }
  const labels = Array.from({ length: maxParts + 1 }, (_, at) => `l${at}`)
  types.set(2000, base({ schema: 'public', name: 'many', kind: 'enum', labels }))
  const document = atOnce(
    projectDocument(
      describe([table('nested', 1, 1000), table('labelled', 300, 2000)], { types, composites }),
      subject,
    ),
  )
  assert.ok(JSON.stringify(document).length < 1_000_000)
})
