// Compiles an operation: a query to one statement, a mutation to one statement for each of its fields.
import {
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  type OperationDefinitionNode,
  OperationTypeNode,
} from 'graphql'
import type { Catalog } from '#src/query/catalog.ts'
import { objectsSql } from '#src/query/object-sql.ts'
import { writeObjectsSql } from '#src/query/object-write-sql.ts'
import type { Call, Member, RootContent, WrittenContent } from '#src/query/objects.ts'
import type { Writer } from '#src/query/writer.ts'
import { meaningOf, type RootMeaning } from '../schema/extensions.ts'
import type { Entity, FunctionField } from '../schema/model.ts'
import type { Compilation } from './compilation.ts'
import { fieldsOf, type SelectedField } from './fields.ts'
import { equals, nodeIdConditions } from './filters.ts'
import { changeOf } from './mutations.ts'
import { DocumentProblem } from './problem.ts'
import { isOfSchema, placeholderOf } from './schema-fields.ts'
import { constantOf, pageOf, rowMembers, showOf } from './selections.ts'

export interface CompiledStatement {
  readonly sql: string
  /** The index of the value of each parameter. */
  readonly parameters: readonly number[]
  /** Everything but a delete. */
  readonly mayAddData: boolean
  /** Calls no volatile function, which could change the session. */
  readonly mayPipeline: boolean
}

export function compileOperation(
  compilation: Compilation,
  catalog: Catalog,
  schema: GraphQLSchema,
  operation: OperationDefinitionNode,
): CompiledStatement[] {
  const isMutation = operation.operation === OperationTypeNode.MUTATION
  const type = (isMutation ? schema.getMutationType() : schema.getQueryType())!
  const fields = fieldsOf(compilation, type, [operation.selectionSet])
  if (isMutation && fields.length > 0)
    return fields.map(field => mutationStatement(compilation, catalog, type, schema, field))
  const members = fields.map(field => ({
    name: field.name,
    content: field.field ? rootContent(compilation, schema, field) : undefinedContent(type, field),
  }))
  return [compiled(objectsSql(catalog, members))]
}

/** Fields that every schema has: the name of the type, and the schema itself, which is inserted later. */
const undefinedContent = (type: GraphQLObjectType, { name, fieldName }: SelectedField): RootContent =>
  isOfSchema(fieldName) ? { kind: 'constant', text: placeholderOf(name) } : constantOf(type)

const compiled = (
  { sql, writer }: { sql: string; writer: Writer },
  { mayAddData = false, mayPipeline = true }: { mayAddData?: boolean; mayPipeline?: boolean } = {},
): CompiledStatement => ({ sql, parameters: writer.parameters, mayAddData, mayPipeline })

const rowType = (schema: GraphQLSchema, { name }: Entity) => schema.getType(name) as GraphQLObjectType

function rootContent(compilation: Compilation, schema: GraphQLSchema, field: SelectedField): RootContent {
  const meaning = meaningOf(field.field!) as RootMeaning
  switch (meaning.kind) {
    case 'collection': {
      const { entity } = meaning
      return { kind: 'page', from: entity.relation, page: pageOf(compilation, entity, field, 1) }
    }
    case 'by key': {
      const { entity } = meaning
      const where = entity.key.map(column => equals(column, compilation.text(field.argument(column.name)!)))
      compilation.countRows(1)
      const members = rowMembers(compilation, entity, rowType(schema, entity), field.selections, 1)
      return { kind: 'row', from: entity.relation, where, members }
    }
    case 'node':
      return nodeContent(compilation, schema, field)
    case 'function':
      return functionContent(compilation, meaning.field, field)
    default:
      throw new Error(`${field.fieldName} is no field of a query`)
  }
}

function nodeContent(compilation: Compilation, schema: GraphQLSchema, field: SelectedField): RootContent {
  const given = field.argument('nodeId')!
  const { schema: schemaName, table, keyLength } = compilation.tableOf(given)
  const { model } = compilation
  const entity = schemaName === model.schema ? model.byTable.get(table) : undefined
  if (!entity) return { kind: 'nothing' }
  if (keyLength !== entity.key.length)
    throw new DocumentProblem(
      `The nodeId is invalid: the key of "${entity.name}" has another number of columns`,
    )
  compilation.countRows(1)
  return {
    kind: 'row',
    from: entity.relation,
    where: nodeIdConditions(compilation, entity, given),
    members: rowMembers(compilation, entity, rowType(schema, entity), field.selections, 1),
  }
}

function functionContent(
  compilation: Compilation,
  { routine, arguments: parameters, returns }: FunctionField,
  field: SelectedField,
): RootContent {
  const given = parameters.flatMap(({ name, parameter, sqlType, type }) => {
    const argument = field.argument(name)
    if (!argument) return []
    const slot = compilation.slot({ as: type.isList ? 'list' : 'text', of: argument.origin })
    return [{ name: parameter, type: sqlType, slot }]
  })
  const from: Call = { routine, arguments: given }
  if (!('entity' in returns)) return { kind: 'value', from, show: showOf(returns) }
  const { entity, isSet } = returns
  if (isSet) return { kind: 'page', from, page: pageOf(compilation, entity, field, 1) }
  const type = getNamedType(field.field!.type) as GraphQLObjectType
  compilation.countRows(1)
  return { kind: 'row', from, where: [], members: rowMembers(compilation, entity, type, field.selections, 1) }
}

function mutationStatement(
  compilation: Compilation,
  catalog: Catalog,
  root: GraphQLObjectType,
  schema: GraphQLSchema,
  field: SelectedField,
): CompiledStatement {
  const { name } = field
  if (!field.field) return compiled(objectsSql(catalog, [{ name, content: undefinedContent(root, field) }]))
  const meaning = meaningOf(field.field) as RootMeaning
  if (meaning.kind === 'function')
    return compiled(
      objectsSql(catalog, [{ name, content: functionContent(compilation, meaning.field, field) }]),
      { mayAddData: true, mayPipeline: false },
    )
  const { entity } = meaning as { entity: Entity }
  const change = changeOf(compilation, entity, meaning.kind as 'insert' | 'update' | 'delete', field)
  const type = getNamedType(field.field.type) as GraphQLObjectType
  const members = fieldsOf(compilation, type, field.selections).map(
    (each): Member<WrittenContent> => ({
      name: each.name,
      content: !each.field
        ? constantOf(type)
        : each.fieldName === 'affectedCount'
          ? { kind: 'count' }
          : {
              kind: 'rows',
              members: rowMembers(compilation, entity, rowType(schema, entity), each.selections, change.rows),
            },
    }),
  )
  const write = writeObjectsSql(catalog, entity.relation, { ...change, name, members })
  return compiled(write, { mayAddData: meaning.kind !== 'delete' })
}
