// Validates requests with Ajv and serializes answers with fast-json-stringify, by the schemas of the contract. Texts in
// paths and queries are converted to the declared numbers and booleans; values in bodies are not. Each schema is compiled
// on first use, because compiling all of them would take most of the time of a start.
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import stringifier from 'fast-json-stringify'
import type { FastifySchemaCompiler } from 'fastify'
import type { FastifySerializerCompiler } from 'fastify/types/schema.js'
import { Refusal } from '#src/kernel/errors.ts'

function ajv(coerceTypes: boolean) {
  const instance = new Ajv({
    coerceTypes,
    removeAdditional: false,
    useDefaults: true,
    allErrors: false,
    verbose: true,
    // A unit test validates our schemas. Validating them here would add 100 ms to each start.
    validateSchema: false,
  })
  ;(formats as unknown as (ajv: Ajv) => void)(instance)
  // Every id also has a pattern, which is stricter, so the format is not checked a second time.
  instance.addFormat('uuid', true)
  return instance
}

/** For path and query parameters. */
export function validatorCompiler(): FastifySchemaCompiler<object> {
  const text = ajv(true)
  return ({ schema }) => {
    let compiled: ValidateFunction | undefined
    const validate = (value: unknown): boolean => {
      compiled ??= text.compile(schema)
      const isValid = compiled(value)
      validate.errors = compiled.errors ?? null
      return isValid
    }
    validate.errors = null as ErrorObject[] | null
    return validate
  }
}

/** For answers. */
export function serializerCompiler(): FastifySerializerCompiler<object> {
  return ({ schema }) => {
    let compiled: ((value: unknown) => string) | undefined
    return value => {
      compiled ??= stringifier(schema)
      return compiled(value)
    }
  }
}

/** For bodies. The check throws a Refusal. A missing body counts as null, which a schema may allow. */
export function bodyChecks(): (schema: object) => (body: unknown) => void {
  const compiler = ajv(false)
  return schema => {
    let validate: ValidateFunction | undefined
    return body => {
      validate ??= compiler.compile(schema)
      if (!validate(body ?? null))
        throw new Refusal('invalid_request', validationSentence(validate.errors ?? [], 'body'))
    }
  }
}

/** One sentence that names the field and what is wrong with it. */
export function validationSentence(errors: readonly Partial<ErrorObject>[], part: string): string {
  const [error] = errors
  if (!error) return `The ${part} is not valid`
  const place = (error.instancePath ?? '').slice(1).replaceAll('/', '.')
  const where = place ? `${partName(part)} "${place}"` : 'The body'
  const { additionalProperty, missingProperty } = (error.params ?? {}) as Record<string, string>
  if (additionalProperty !== undefined) return `${where} has an unknown field "${additionalProperty}"`
  if (missingProperty !== undefined)
    return part === 'body'
      ? `${where} must have the field "${missingProperty}"`
      : `${partName(part)} "${missingProperty}" is missing`
  const { description } = (error.parentSchema ?? {}) as { description?: string }
  // The description of the schema is easier to understand than its pattern.
  if (error.keyword === 'pattern' && description) return `${where} must be ${description}`
  if (error.params?.['format'] === 'date-time')
    return `${where} must be a time with an offset, such as 2030-01-31T10:00:00Z`
  const allowed = (error.params as { allowedValues?: unknown[] } | undefined)?.allowedValues
  return `${where} ${error.message ?? 'is not valid'}${allowed ? `: ${allowed.join(', ')}` : ''}`
}

const partName = (part: string) =>
  ({ body: 'Field', querystring: 'Query parameter', params: 'Path parameter' })[part] ?? part
