// The GraphQL schema of a model. The reference library validates documents with it and answers introspection; nothing
// resolves here.
import {
  GraphQLBoolean,
  GraphQLEnumType,
  type GraphQLFieldConfigMap,
  type GraphQLInputFieldConfigMap,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLInt,
  GraphQLInterfaceType,
  GraphQLList,
  GraphQLNonNull,
  type GraphQLNullableType,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLSchema,
  GraphQLString,
} from 'graphql'
import { aggregateType } from './aggregate-types.ts'
import { withMeaning } from './extensions.ts'
import { createFilters, type FilterOf } from './filters.ts'
import type { ColumnField, Entity, FunctionField, LinkField, Model, ValueType } from './model.ts'
import { mutationsOf } from './mutation-types.ts'
import { lowerFirst } from './names.ts'
import { cursor, id, scalars } from './scalars.ts'

type Fields = GraphQLFieldConfigMap<unknown, unknown>
const nonNull = <T extends GraphQLNullableType>(type: T) => new GraphQLNonNull(type)
/** A list of non-null elements. */
const listOf = <T extends GraphQLNullableType>(type: T) => new GraphQLList(nonNull(type))

const pageInfo = new GraphQLObjectType({
  name: 'PageInfo',
  fields: {
    hasNextPage: { type: nonNull(GraphQLBoolean) },
    hasPreviousPage: { type: nonNull(GraphQLBoolean) },
    startCursor: { type: GraphQLString },
    endCursor: { type: GraphQLString },
  },
})

const orderByDirection = new GraphQLEnumType({
  name: 'OrderByDirection',
  values: { AscNullsFirst: {}, AscNullsLast: {}, DescNullsFirst: {}, DescNullsLast: {} },
})

const nodeInterface = new GraphQLInterfaceType({
  name: 'Node',
  description: 'Any row, with an identifier that is unique in the project',
  fields: { nodeId: { type: nonNull(id) } },
})

export function graphqlSchemaOf(model: Model): GraphQLSchema {
  const types = new SchemaTypes(model)
  const mutations = types.mutations()
  return new GraphQLSchema({
    query: new GraphQLObjectType({ name: 'Query', fields: types.queries() }),
    mutation:
      Object.keys(mutations).length > 0
        ? new GraphQLObjectType({ name: 'Mutation', fields: mutations })
        : undefined,
    types: [
      nodeInterface,
      ...model.entities.map(entity => types.row(entity)),
      ...Object.values(scalars),
      cursor,
    ],
    // Names come from the catalogue and have been checked; validating 2,000 tables again takes seconds.
    assumeValid: true,
  })
}

/** The types of each entity, each made once. */
class SchemaTypes {
  readonly #model: Model
  readonly #rows = new Map<Entity, GraphQLObjectType>()
  readonly #connections = new Map<Entity, GraphQLObjectType>()
  readonly #filters = new Map<Entity, GraphQLInputObjectType>()
  readonly #someFilters = new Map<Entity, GraphQLInputObjectType>()
  readonly #orders = new Map<Entity, GraphQLInputObjectType>()
  readonly #enums = new Map<string, GraphQLEnumType>()
  readonly #filterOf: FilterOf

  constructor(model: Model) {
    this.#model = model
    for (const { name, description, labels } of model.enums)
      this.#enums.set(
        name,
        new GraphQLEnumType({
          name,
          description,
          values: Object.fromEntries([...labels].map(([value, label]) => [value, { value: label }])),
        }),
      )
    this.#filterOf = createFilters(of => this.#scalar(of))
  }

  #scalar(of: ValueType['of']) {
    return typeof of === 'string' ? scalars[of] : this.#enums.get(of.name)!
  }

  value({ of, isList }: ValueType) {
    const type = this.#scalar(of)
    return isList ? new GraphQLList(type) : type
  }

  queries(): Fields {
    const fields: Fields = {
      node: {
        description: 'Finds a row by its nodeId',
        type: nodeInterface,
        args: { nodeId: { type: nonNull(id) } },
        extensions: withMeaning({ kind: 'node' }),
      },
    }
    for (const entity of this.#model.entities) {
      const base = lowerFirst(entity.name)
      fields[`${base}Collection`] = {
        description: `A page of rows of ${entity.name}`,
        type: nonNull(this.#connection(entity)),
        args: this.#pageArguments(entity),
        extensions: withMeaning({ kind: 'collection', entity }),
      }
      fields[`${base}ByPk`] = {
        description: `The row of ${entity.name} with this primary key`,
        type: this.row(entity),
        args: Object.fromEntries(
          entity.key.map(column => [column.name, { type: nonNull(this.value(column.type)) }]),
        ),
        extensions: withMeaning({ kind: 'by key', entity }),
      }
    }
    this.#addFunctions(fields, false)
    return fields
  }

  mutations(): Fields {
    const fields: Fields = {}
    for (const entity of this.#model.entities) Object.assign(fields, mutationsOf(entity, this))
    this.#addFunctions(fields, true)
    return fields
  }

  /** A table's field wins over a function of the same name. */
  #addFunctions(fields: Fields, isVolatile: boolean): void {
    for (const field of this.#model.functions)
      if (field.routine.isVolatile === isVolatile && !Object.hasOwn(fields, field.name))
        fields[field.name] = {
          description: field.description,
          type: this.#returned(field),
          args: { ...this.#functionArguments(field), ...this.#pageArgumentsOf(field) },
          extensions: withMeaning({ kind: 'function', field }),
        }
  }

  #returned({ returns }: FunctionField): GraphQLOutputType {
    if (!('entity' in returns)) return this.value(returns)
    return returns.isSet ? this.#connection(returns.entity) : this.row(returns.entity)
  }

  #functionArguments(field: FunctionField) {
    return Object.fromEntries(
      field.arguments.map(({ name, type, hasDefault }) => [
        name,
        { type: hasDefault ? this.value(type) : nonNull(this.value(type)) },
      ]),
    )
  }

  /** Arguments of the function win over those of the page. */
  #pageArgumentsOf(field: FunctionField) {
    if (!('entity' in field.returns) || !field.returns.isSet) return {}
    const taken = new Set(field.arguments.map(({ name }) => name))
    return Object.fromEntries(
      Object.entries(this.#pageArguments(field.returns.entity)).filter(([name]) => !taken.has(name)),
    )
  }

  row(entity: Entity): GraphQLObjectType {
    const known = this.#rows.get(entity)
    if (known) return known
    const made = new GraphQLObjectType({
      name: entity.name,
      description: entity.description,
      interfaces: [nodeInterface],
      fields: () => this.#rowFields(entity),
    })
    this.#rows.set(entity, made)
    return made
  }

  #rowFields(entity: Entity): Fields {
    const fields: Fields = {
      nodeId: {
        description: 'Identifies the row in the whole project',
        type: nonNull(id),
        extensions: withMeaning({ kind: 'node id' }),
      },
    }
    for (const field of entity.columns)
      fields[field.name] = {
        description: field.description,
        type: field.isNotNull ? nonNull(this.value(field.type)) : this.value(field.type),
        extensions: withMeaning({ kind: 'column', field }),
      }
    for (const field of entity.links) fields[field.name] = this.#linkField(field)
    for (const field of entity.computed)
      fields[field.name] = {
        description: field.description,
        type: this.value(field.type),
        extensions: withMeaning({ kind: 'computed', field }),
      }
    return fields
  }

  #linkField(field: LinkField): Fields[string] {
    const extensions = withMeaning({ kind: 'link', field })
    if (field.link.isToOne) {
      const type = this.row(field.target)
      // Policies may hide the row, so that even a foreign key that is not null may lead to nothing.
      return { type, extensions }
    }
    const type = this.#connection(field.target)
    return { type, args: this.#pageArguments(field.target), extensions }
  }

  #connection(entity: Entity): GraphQLObjectType {
    const known = this.#connections.get(entity)
    if (known) return known
    const { name } = entity
    const edge = new GraphQLObjectType({
      name: `${name}Edge`,
      fields: () => ({ cursor: { type: nonNull(GraphQLString) }, node: { type: nonNull(this.row(entity)) } }),
    })
    const made = new GraphQLObjectType({
      name: `${name}Connection`,
      fields: () => ({
        edges: { type: nonNull(listOf(edge)) },
        pageInfo: { type: nonNull(pageInfo) },
        totalCount: { type: nonNull(GraphQLInt), description: 'Rows that match the filter, on all pages' },
        ...(entity.hasAggregates && {
          aggregate: { type: aggregateType(entity, of => this.#scalar(of)) },
        }),
      }),
    })
    this.#connections.set(entity, made)
    return made
  }

  #pageArguments(entity: Entity): Record<string, { type: GraphQLInputType; description?: string }> {
    return {
      first: { type: GraphQLInt, description: 'Rows from the beginning, or after the cursor' },
      last: { type: GraphQLInt, description: 'Rows from the end, or before the cursor' },
      before: { type: cursor },
      after: { type: cursor },
      offset: { type: GraphQLInt, description: 'Rows to skip' },
      filter: { type: this.filter(entity) },
      orderBy: { type: listOf(this.#order(entity)) },
    }
  }

  filter(entity: Entity): GraphQLInputObjectType {
    const known = this.#filters.get(entity)
    if (known) return known
    const made: GraphQLInputObjectType = new GraphQLInputObjectType({
      name: `${entity.name}Filter`,
      fields: () => this.#filterFields(entity, made),
    })
    this.#filters.set(entity, made)
    return made
  }

  #filterFields(entity: Entity, filter: GraphQLInputObjectType): GraphQLInputFieldConfigMap {
    const fields: GraphQLInputFieldConfigMap = {
      nodeId: {
        type: idFilter,
        description: 'The row with this nodeId',
      },
      and: { type: listOf(filter), description: 'All of these' },
      or: { type: listOf(filter), description: 'At least one of these' },
      not: { type: filter, description: 'Not this' },
    }
    for (const field of entity.columns) {
      const type = this.#filterOf(field.type)
      if (type && !Object.hasOwn(fields, field.name)) fields[field.name] = { type }
    }
    for (const { name, link, target } of entity.links)
      if (!Object.hasOwn(fields, name))
        fields[name] = { type: link.isToOne ? this.filter(target) : this.#someFilter(target) }
    return fields
  }

  #someFilter(entity: Entity): GraphQLInputObjectType {
    const known = this.#someFilters.get(entity)
    if (known) return known
    const made = new GraphQLInputObjectType({
      name: `${entity.name}SomeFilter`,
      fields: () => ({
        some: { type: this.filter(entity), description: 'At least one row matches' },
        none: { type: this.filter(entity), description: 'No row matches' },
        every: { type: this.filter(entity), description: 'No row does not match' },
      }),
    })
    this.#someFilters.set(entity, made)
    return made
  }

  #order(entity: Entity): GraphQLInputObjectType {
    const known = this.#orders.get(entity)
    if (known) return known
    const made = new GraphQLInputObjectType({
      name: `${entity.name}OrderBy`,
      fields: () => {
        const fields: GraphQLInputFieldConfigMap = {}
        for (const field of entity.columns)
          if (isOrderable(field)) fields[field.name] = { type: orderByDirection }
        for (const { name, link, target } of entity.links)
          if (link.isToOne && !Object.hasOwn(fields, name)) fields[name] = { type: this.#order(target) }
        return fields
      },
    })
    this.#orders.set(entity, made)
    return made
  }
}

const idFilter = new GraphQLInputObjectType({ name: 'IDFilter', fields: { eq: { type: id } } })

const isOrderable = ({ type }: ColumnField): boolean => !type.isList && type.of !== 'JSON'
