// Builds the model of a schema for a role: the tables, columns and functions that the role may use, under their names.
import type { Role } from '@plinth/contract/route.ts'
import type { Catalog, Column, Relation, Relationship, Routine } from '#src/query/catalog.ts'
import type { ReflectedRelation, Reflection } from '#src/query/reflection.ts'
import {
  type ConstraintDirective,
  directiveIn,
  hiddenName,
  type NameDirective,
  type RelationDirective,
  type SchemaDirective,
} from './directives.ts'
import type { ColumnField, ComputedField, Entity, FunctionField, LinkField, Model } from './model.ts'
import { isName, lowerFirst, type Names, namesFor } from './names.ts'
import { derivedNames, reservedTypes } from './type-names.ts'
import { createValueTypes, type ValueTypes } from './value-types.ts'

export const defaultMaxRows = 30

interface Source {
  readonly catalog: Catalog
  readonly reflection: Reflection
  readonly schema: string
  readonly role: Role
  readonly names: Names
  readonly types: ValueTypes
  /** For collections without a directive of their own. */
  readonly maxRows: number
  readonly mostRows: number
}

/** `mostRows` limits what directives may set. */
export function modelFrom(
  catalog: Catalog,
  reflection: Reflection,
  schema: string,
  role: Role,
  mostRows: number,
): Model {
  const reflected = reflection.schemas.get(schema)
  const directive = directiveIn<SchemaDirective>(reflected?.comment, `the schema "${schema}"`)
  const names = namesFor(directive.inflect_names ?? false)
  const relations = catalog.relationNames(schema).map(name => catalog.relation(schema, name)!)
  const tableTypes = relations.flatMap(each => derivedNames(typeNameOf(each, reflection, names, role)))
  const types = createValueTypes(reflection, names, new Set([...reservedTypes, ...tableTypes]))
  const maxRows = Math.min(directive.max_rows ?? defaultMaxRows, mostRows)
  const source: Source = { catalog, reflection, schema, role, names, types, maxRows, mostRows }
  const entities = reflected?.isUsable(role) ? entitiesOf(source) : []
  const byTable = new Map(entities.map(entity => [entity.relation.name, entity]))
  const declared = entities.flatMap(entity => declaredKeys(source, entity, byTable))
  for (const entity of entities) addLinks(source, entity, byTable, declared)
  for (const entity of entities) addComputed(source, entity, byTable)
  const functions = reflected?.isUsable(role) ? functionsOf(source, entities, byTable) : []
  return { schema, entities, byTable, enums: types.enums(), functions }
}

function entitiesOf(source: Source): Entity[] {
  const { catalog, schema } = source
  const entities: Entity[] = []
  const taken = new Set<string>(reservedTypes)
  for (const name of catalog.relationNames(schema).toSorted()) {
    const entity = entityFrom(source, catalog.relation(schema, name)!)
    if (!entity) continue
    const own = derivedNames(entity.name)
    // A table whose types would have the names of another one's is not shown.
    if (own.some(each => taken.has(each))) continue
    for (const each of own) taken.add(each)
    entities.push(entity)
  }
  return entities
}

function relationName({ oid, name, columns }: Relation, { relations }: Reflection, role: Role): string {
  const isVisible = columns.keys().some(column => relations.get(oid)?.mayUse(role, 'select', column))
  return isVisible ? `"${name}"` : hiddenName
}

function typeNameOf(relation: Relation, reflection: Reflection, names: Names, role: Role): string {
  const { comment } = reflection.relations.get(relation.oid) ?? {}
  const directive = directiveIn<RelationDirective>(comment, relationName(relation, reflection, role))
  return directive.name ?? names.type(relation.name)
}

function entityFrom(source: Source, relation: Relation): Entity | undefined {
  const { reflection, role, names, maxRows, mostRows } = source
  const reflected = reflection.relations.get(relation.oid)
  if (!reflected) return
  const directive = directiveIn<RelationDirective>(
    reflected.comment,
    relationName(relation, reflection, role),
  )
  const name = typeNameOf(relation, reflection, names, role)
  if (!isName(name)) return
  const columns = new Map<string, ColumnField>()
  for (const column of relation.columns.values()) {
    const field = columnFrom(source, relation, reflected, column)
    if (field && !columns.has(field.name) && field.name !== 'nodeId') columns.set(field.name, field)
  }
  const all = [...columns.values()]
  const readable = all.filter(({ column }) => reflected.mayUse(role, 'select', column.name))
  const keyNames = relation.isView ? (directive.primary_key_columns ?? []) : relation.primaryKey
  const key = keyNames.map(each => readable.find(({ column }) => column.name === each))
  if (key.length === 0 || !key.every(each => each !== undefined)) return
  const writable = (privilege: 'insert' | 'update') =>
    all.filter(
      ({ column }) =>
        reflected.mayUse(role, privilege, column.name) && !reflected.columns.get(column.name)?.isGenerated,
    )
  return {
    relation,
    name,
    description: directive.description,
    key,
    columns: readable,
    links: [],
    computed: [],
    maxRows: Math.min(directive.max_rows ?? maxRows, mostRows),
    hasAggregates: directive.aggregate?.enabled ?? false,
    insertable: writable('insert'),
    updatable: writable('update'),
    isDeletable: reflected.mayDelete(role),
  }
}

function columnFrom(
  { names, types, role }: Source,
  relation: Relation,
  reflected: ReflectedRelation,
  column: Column,
): ColumnField | undefined {
  const known = reflected.columns.get(column.name)
  const isVisible = reflected.mayUse(role, 'select', column.name)
  const type = known && types.of(known.type, isVisible)
  if (!type) return
  const shown = isVisible ? `"${relation.name}"."${column.name}"` : hiddenName
  const directive = directiveIn<NameDirective>(known.comment, shown)
  const name = directive.name ?? names.column(column.name)
  if (!isName(name)) return
  return { name, description: directive.description, column, type, isNotNull: known.isNotNull }
}

interface NamedLink extends Omit<LinkField, 'name'> {
  /** The first free one is used. The others are further names, unless they are taken. */
  readonly names: readonly string[]
  /** Names that are used only if no other link wants the first one. */
  readonly isExplicit: boolean
  /** Used instead if several links want the same name. */
  readonly distinctName: string
}

/** A foreign key that the comment of a view declares, seen from one side. */
interface DeclaredKey {
  readonly of: Entity
  readonly relationship: Relationship
  readonly name: string | undefined
}

function declaredKeys(source: Source, view: Entity, byTable: ReadonlyMap<string, Entity>): DeclaredKey[] {
  const { reflection, schema } = source
  const { relation } = view
  const { comment } = reflection.relations.get(relation.oid)!
  const { foreign_keys: keys = [] } = directiveIn<RelationDirective>(comment, `"${relation.name}"`)
  return keys.flatMap(key => {
    const target = key.foreign_schema === schema ? byTable.get(key.foreign_table) : undefined
    const columns = key.local_columns.map((own, index) => [own, key.foreign_columns[index] ?? ''] as const)
    const isKnown = columns.every(
      ([own, theirs]) => relation.columns.has(own) && target?.relation.columns.has(theirs),
    )
    if (!target || !isKnown || columns.length === 0) return []
    const common = { constraint: '', isSelf: target === view }
    return [
      {
        of: view,
        name: key.foreign_name,
        relationship: { ...common, cardinality: 'many-to-one', target: target.relation, columns },
      },
      {
        of: target,
        name: key.local_name,
        relationship: {
          ...common,
          cardinality: 'one-to-many',
          target: relation,
          columns: columns.map(([own, theirs]) => [theirs, own] as const),
        },
      },
    ]
  })
}

function addLinks(
  source: Source,
  entity: Entity,
  byTable: ReadonlyMap<string, Entity>,
  declared: readonly DeclaredKey[],
): void {
  const ofTables = entity.relation.relationships
    .filter(({ target }) => !entity.relation.isView && !target.isView)
    .map(relationship =>
      linkFrom(source, entity, relationship, byTable, () => nameIn(source, entity, relationship)),
    )
  const ofViews = declared
    .filter(({ of }) => of === entity)
    .map(({ relationship, name }) => linkFrom(source, entity, relationship, byTable, () => name))
  const links = [...ofTables, ...ofViews].filter(link => link !== undefined)
  const wanted = Map.groupBy(
    links.filter(({ isExplicit }) => !isExplicit),
    ({ names: [first] }) => first!,
  )
  const taken = new Set(['nodeId', ...entity.columns.map(({ name }) => name)])
  const add = (link: NamedLink, name: string) => {
    if (!isName(name) || taken.has(name)) return
    taken.add(name)
    entity.links.push({ name, link: link.link, target: link.target, isNotNull: link.isNotNull })
  }
  for (const link of links) if (link.isExplicit) add(link, link.names[0]!)
  for (const link of links) {
    const isShared = !link.isExplicit && wanted.get(link.names[0]!)!.length > 1
    add(link, isShared ? link.distinctName : link.names[0]!)
  }
  for (const link of links) for (const name of link.names.slice(1)) add(link, name)
}

/** The name that the comment of a foreign key gives to this side of it. */
function nameIn(
  { reflection }: Source,
  { relation }: Entity,
  { cardinality, constraint, target }: Relationship,
): string | undefined {
  const isForward = cardinality === 'many-to-one'
  const comment = reflection.constraints.get(`${(isForward ? relation : target).oid}.${constraint}`)
  const directive = directiveIn<ConstraintDirective>(comment, `the constraint "${constraint}"`)
  return isForward ? directive.foreign_name : directive.local_name
}

function linkFrom(
  { reflection, role, names }: Source,
  entity: Entity,
  relationship: Relationship,
  byTable: ReadonlyMap<string, Entity>,
  nameOf: () => string | undefined,
): NamedLink | undefined {
  const { relation } = entity
  const target = byTable.get(relationship.target.name)
  if (target?.relation !== relationship.target) return
  const own = reflection.relations.get(relation.oid)!
  const theirs = reflection.relations.get(target.relation.oid)!
  const isReadable = relationship.columns.every(
    ([mine, other]) => own.mayUse(role, 'select', mine) && theirs.mayUse(role, 'select', other),
  )
  if (!isReadable) return
  const explicit = nameOf()
  const isForward = relationship.cardinality === 'many-to-one'
  const isToOne = relationship.cardinality !== 'one-to-many'
  const columns = relationship.columns.map(([mine]) => mine)
  const foreign = relationship.columns.map(([, other]) => other)
  const reverse = `${lowerFirst(target.name)}${isToOne ? '' : 'Collection'}`
  const given = isForward ? names.toOne(columns, target.name) : [reverse]
  return {
    names: explicit === undefined ? given : [explicit],
    isExplicit: explicit !== undefined,
    distinctName: isForward ? (given[1] ?? columns.join('_')) : `${reverse}By_${foreign.join('_')}`,
    link: { kind: 'key', relationship, isToOne },
    target,
    isNotNull: isForward && columns.every(each => own.columns.get(each)?.isNotNull),
  }
}

function addComputed(source: Source, entity: Entity, byTable: ReadonlyMap<string, Entity>): void {
  const { reflection, role, names, types } = source
  const taken = new Set(['nodeId', ...[...entity.columns, ...entity.links].map(({ name }) => name)])
  for (const routine of entity.relation.computed.values()) {
    const reflected = reflection.functions.get(routine.oid)
    if (!routine.name.startsWith('_') || !reflected?.mayCall(role)) continue
    const directive = directiveIn<NameDirective>(reflected.comment, `the function "${routine.name}"`)
    const name = directive.name ?? names.function(routine.name.slice(1))
    if (!isName(name) || taken.has(name)) continue
    const target = targetOf(routine, byTable)
    const type = target || routine.isSet ? undefined : types.of(reflected.returns)
    if (target) {
      const isToOne = !routine.isSet || routine.isOneRow
      entity.links.push({ name, target, isNotNull: false, link: { kind: 'function', routine, isToOne } })
    } else if (type)
      entity.computed.push({
        name,
        description: directive.description,
        routine,
        type,
      } satisfies ComputedField)
    else continue
    taken.add(name)
  }
}

const targetOf = ({ relation }: Routine, byTable: ReadonlyMap<string, Entity>): Entity | undefined => {
  const target = relation && byTable.get(relation.name)
  return target?.relation === relation ? target : undefined
}

function functionsOf(
  source: Source,
  entities: readonly Entity[],
  byTable: ReadonlyMap<string, Entity>,
): FunctionField[] {
  const { catalog, schema } = source
  const rows = new Set(entities.flatMap(({ relation }) => [...relation.computed.values()]))
  const found = new Map<string, FunctionField>()
  for (const name of catalog.functionNames(schema).toSorted()) {
    const [routine, ...overloads] = catalog.functions(schema, name)
    if (!routine || overloads.length > 0 || rows.has(routine)) continue
    const field = functionFrom(source, routine, byTable)
    if (field && !found.has(field.name)) found.set(field.name, field)
  }
  return [...found.values()]
}

function functionFrom(
  { reflection, role, names, types }: Source,
  routine: Routine,
  byTable: ReadonlyMap<string, Entity>,
): FunctionField | undefined {
  const reflected = reflection.functions.get(routine.oid)
  if (!reflected?.mayCall(role)) return
  const directive = directiveIn<NameDirective>(reflected.comment, `the function "${routine.name}"`)
  const name = directive.name ?? names.function(routine.name)
  const entity = targetOf(routine, byTable)
  const type = routine.isSet || routine.returns !== 'scalar' ? undefined : types.of(reflected.returns)
  const returns = entity ? { entity, isSet: routine.isSet } : type
  const given = routine.parameters.map(parameter => ({
    name: names.column(parameter.name),
    parameter: parameter.name,
    sqlType: parameter.type,
    type: parameter.isVariadic ? undefined : types.of(parameter.typeOid),
    hasDefault: parameter.hasDefault,
  }))
  const isPossible =
    isName(name) &&
    returns !== undefined &&
    given.every(each => isName(each.name) && each.type !== undefined) &&
    new Set(given.map(each => each.name)).size === given.length
  if (!isPossible) return
  return {
    name,
    description: directive.description,
    routine,
    arguments: given as FunctionField['arguments'],
    returns: returns!,
  }
}
