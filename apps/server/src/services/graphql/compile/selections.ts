// What an operation shows of rows and of pages of rows.
import { type GraphQLObjectType, getNamedType, type SelectionSetNode } from 'graphql'
import type {
  AggregateContent,
  Constant,
  EdgeContent,
  Member,
  Page,
  PageContent,
  PageFact,
  RowContent,
  Show,
} from '#src/query/objects.ts'
import { meaningOf, type RowMeaning } from '../schema/extensions.ts'
import { type ColumnField, type Entity, isScalar, type ValueType } from '../schema/model.ts'
import type { Compilation } from './compilation.ts'
import { fieldsOf, type SelectedField } from './fields.ts'
import { filterOf } from './filters.ts'
import { boundsOf, orderOf } from './page-arguments.ts'

/** `__typename`, the only field without a definition. */
export const constantOf = ({ name }: GraphQLObjectType): Constant => ({ kind: 'constant', text: name })

/** `times` is the number of rows that the answer may have. */
export const rowMembers = (
  compilation: Compilation,
  entity: Entity,
  type: GraphQLObjectType,
  selections: readonly SelectionSetNode[],
  times: number,
): Member<RowContent>[] =>
  fieldsOf(compilation, type, selections).map(field => ({
    name: field.name,
    content: field.field ? rowContent(compilation, entity, field, times) : constantOf(type),
  }))

function rowContent(
  compilation: Compilation,
  entity: Entity,
  field: SelectedField,
  times: number,
): RowContent {
  const meaning = meaningOf(field.field!) as RowMeaning | undefined
  switch (meaning?.kind) {
    case 'column': {
      const { column, type } = meaning.field
      return { kind: 'value', value: { column, path: [] }, show: showOf(type) }
    }
    case 'computed': {
      const { routine, type } = meaning.field
      return { kind: 'value', value: { computed: routine, path: [] }, show: showOf(type) }
    }
    case 'link': {
      const { link, target } = meaning.field
      if (!link.isToOne) return { kind: 'page', link, page: pageOf(compilation, target, field, times) }
      const type = getNamedType(field.field!.type) as GraphQLObjectType
      compilation.countRows(times)
      return { kind: 'row', link, members: rowMembers(compilation, target, type, field.selections, times) }
    }
    default:
      return { kind: 'node id', relation: entity.relation, key: entity.key.map(({ column }) => column) }
  }
}

const asText = new Set<ValueType['of']>(['BigInt', 'BigFloat', 'JSON'])

export function showOf({ of, isList }: ValueType): Show {
  if (typeof of === 'string') return { isText: asText.has(of), isList }
  const renamed = new Map([...of.names].filter(([label, name]) => label !== name))
  return { isText: false, isList, ...(renamed.size > 0 && { names: renamed }) }
}

/** `times` is the number of rows around the page, each of which has a page of its own. */
export function pageOf(compilation: Compilation, entity: Entity, field: SelectedField, times: number): Page {
  const { isBackward, limit, ...bounds } = boundsOf(compilation, entity, field)
  const order = orderOf(compilation, entity, field.argument('orderBy'))
  const cursor = bounds.cursor && {
    cursor: order.map((_, index) =>
      compilation.slot({ as: 'cursor', of: bounds.cursor!.origin, index, length: order.length }),
    ),
  }
  const offset = bounds.offset && { offset: compilation.text(bounds.offset) }
  compilation.countRows(times * limit)
  return {
    where: filterOf(compilation, entity, field.argument('filter')),
    order,
    isInKeyOrder: order.length === entity.key.length,
    limit,
    isBackward,
    ...offset,
    ...cursor,
    members: pageMembers(compilation, entity, field, times * Math.max(limit, 1)),
  }
}

const objectType = (field: SelectedField): GraphQLObjectType =>
  getNamedType(field.field!.type) as GraphQLObjectType

function membersOf<C>(
  compilation: Compilation,
  type: GraphQLObjectType,
  field: SelectedField,
  contentOf: (field: SelectedField) => C,
): Member<C | Constant>[] {
  return fieldsOf(compilation, type, field.selections).map(each => ({
    name: each.name,
    content: each.field ? contentOf(each) : constantOf(type),
  }))
}

function pageMembers(
  compilation: Compilation,
  entity: Entity,
  field: SelectedField,
  times: number,
): Member<PageContent>[] {
  return membersOf<PageContent>(compilation, objectType(field), field, each => {
    switch (each.fieldName) {
      case 'edges':
        return { kind: 'edges', members: edgeMembers(compilation, entity, each, times) }
      case 'pageInfo':
        return { kind: 'page info', members: membersOf(compilation, objectType(each), each, factOf) }
      case 'totalCount':
        return { kind: 'total' }
      default:
        return { kind: 'aggregate', members: aggregateMembers(compilation, each) }
    }
  })
}

const edgeMembers = (
  compilation: Compilation,
  entity: Entity,
  field: SelectedField,
  times: number,
): Member<EdgeContent>[] =>
  membersOf<EdgeContent>(compilation, objectType(field), field, each =>
    each.fieldName === 'cursor'
      ? { kind: 'cursor' }
      : { kind: 'node', members: rowMembers(compilation, entity, objectType(each), each.selections, times) },
  )

const facts: Record<string, Exclude<PageFact, Constant>> = {
  hasNextPage: { kind: 'has next' },
  hasPreviousPage: { kind: 'has previous' },
  startCursor: { kind: 'start cursor' },
  endCursor: { kind: 'end cursor' },
}
const factOf = ({ fieldName }: SelectedField): PageFact => facts[fieldName]!

function aggregateMembers(compilation: Compilation, field: SelectedField): Member<AggregateContent>[] {
  return membersOf<AggregateContent>(compilation, objectType(field), field, each => {
    const meaning = meaningOf(each.field!)
    if (meaning?.kind !== 'aggregates') return { kind: 'count' }
    const { call } = meaning
    const members = membersOf(compilation, objectType(each), each, aggregated => {
      const of = meaningOf(aggregated.field!) as { field: ColumnField }
      const { column, type } = of.field
      return {
        kind: 'column' as const,
        column,
        isText: call === 'sum' || call === 'avg' || isScalar(type, 'BigInt', 'BigFloat'),
        isBoolean: isScalar(type, 'Boolean'),
      }
    })
    return { kind: 'of columns', call, members }
  })
}
