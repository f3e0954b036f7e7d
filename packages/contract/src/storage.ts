// Storage routes of a project, native and as storage-js calls them. Uploads and downloads are bytes.
import type { Static, TSchema } from 'typebox'
import type { DataRoute, Method, Role, Routes } from './route.ts'
import { Id, Nullable, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const everyone = ['anon', 'authenticated', 'service_role'] as const satisfies Role[]

const Bytes = Type.Unknown({ description: 'The bytes of the file.' })
const Size = Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.String()], {
  description: 'Bytes, or a text like 20MB, 1GB, 30KB.',
})
const MimeTypes = Type.Array(Type.String({ maxLength: 255 }), {
  maxItems: 100,
  description: 'Such as image/png or image/*.',
})

export const Bucket = Type.Object({
  id: Type.String(),
  name: Type.String(),
  owner: Type.String({ description: 'Id of the user who created the bucket, or empty.' }),
  public: Type.Boolean(),
  type: Type.String(),
  file_size_limit: Nullable(Type.Integer()),
  allowed_mime_types: Nullable(Type.Array(Type.String())),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type Bucket = Static<typeof Bucket>

const bucketInput = {
  public: Type.Optional(Nullable(Type.Boolean())),
  file_size_limit: Type.Optional(Nullable(Size)),
  allowed_mime_types: Type.Optional(Nullable(MimeTypes)),
  type: Type.Optional(Type.String()),
}
export const BucketInput = Type.Object({
  id: Type.Optional(Type.String()),
  name: Type.Optional(Type.String()),
  ...bucketInput,
})
export type BucketInput = Static<typeof BucketInput>

export const StoredObject = Type.Object({
  id: Type.String(),
  bucket_id: Type.String(),
  name: Type.String(),
  owner: Nullable(Type.String()),
  owner_id: Nullable(Type.String()),
  version: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
  last_accessed_at: Nullable(Timestamp),
  metadata: Type.Unknown(),
  user_metadata: Type.Unknown(),
})
export type StoredObject = Static<typeof StoredObject>

export const Transform = Type.Object({
  width: Type.Optional(Type.Integer({ minimum: 0 })),
  height: Type.Optional(Type.Integer({ minimum: 0 })),
  resize: Type.Optional(Type.String()),
  quality: Type.Optional(Type.Integer()),
  format: Type.Optional(Type.String()),
})

const Message = Type.Object({ message: Type.String() })
const Seconds = Type.Integer({ minimum: 1, maximum: 3_155_760_000 })
const SortBy = Type.Object({
  column: Type.Optional(Type.String()),
  order: Type.Optional(Type.String()),
})
const MoveOrCopy = Type.Object({
  bucketId: Type.String(),
  sourceKey: Type.String(),
  destinationKey: Type.String(),
  destinationBucket: Type.Optional(Nullable(Type.String())),
  copyMetadata: Type.Optional(Type.Boolean()),
  metadata: Type.Optional(
    Nullable(
      Type.Object({
        cacheControl: Type.Optional(Type.String()),
        mimetype: Type.Optional(Type.String()),
      }),
    ),
  ),
})
export type MoveOrCopy = Static<typeof MoveOrCopy>

const InBucket = Type.Object({ project: Id, bucket: Type.String() })
const AtPath = Type.Object({ project: Id, bucket: Type.String(), path: Type.String() })
const InProject = Type.Object({ project: Id })
const OfUpload = Type.Object({ project: Id, upload_id: Type.String() })
const text = Type.Optional(Type.String())
const Download = Type.Object({ download: text, token: text })
const Render = Type.Object({
  width: text,
  height: text,
  resize: text,
  quality: text,
  format: text,
  download: text,
  token: text,
})

const at = <M extends Method, P extends TSchema, R extends TSchema>(
  method: M,
  path: string,
  params: P,
  reply: R,
  summary: string,
) =>
  ({
    plane: 'data',
    method,
    path: `/storage/{project}/${path}`,
    params,
    reply,
    allow: everyone,
    summary,
  }) as const satisfies DataRoute

/** The body or the answer is bytes. */
const bytes = <M extends Method, P extends TSchema>(method: M, path: string, params: P, summary: string) =>
  ({ ...at(method, path, params, Bytes, summary), raw: true }) as const satisfies DataRoute

const open = { allow: 'open' } as const

export const storageApi = {
  listBuckets: {
    ...at('GET', 'bucket', InProject, Type.Array(Bucket), 'List the buckets the caller may see'),
    query: Type.Object({ limit: text, offset: text, search: text, sortColumn: text, sortOrder: text }),
  },
  createBucket: {
    needsSpace: 'database',
    ...at('POST', 'bucket', InProject, Type.Object({ name: Type.String() }), 'Create a bucket'),
    body: BucketInput,
  },
  readBucket: at('GET', 'bucket/{bucket}', InBucket, Bucket, 'Read a bucket'),
  updateBucket: {
    needsSpace: 'database',
    ...at('PUT', 'bucket/{bucket}', InBucket, Message, 'Change a bucket; omitted fields are not changed'),
    body: BucketInput,
  },
  deleteBucket: at('DELETE', 'bucket/{bucket}', InBucket, Message, 'Delete an empty bucket'),
  emptyBucket: {
    ...at('POST', 'bucket/{bucket}/empty', InBucket, Message, 'Delete all files of a bucket'),
    allow: ['service_role'],
  },

  upload: {
    ...bytes('POST', 'object/{bucket}/{path}', AtPath, 'Upload a file; x-upsert: true overwrites'),
    needsSpace: 'database',
  },
  put: {
    ...bytes('PUT', 'object/{bucket}/{path}', AtPath, 'Upload a file, overwriting an existing one'),
    needsSpace: 'database',
  },
  download: {
    ...bytes('GET', 'object/{bucket}/{path}', AtPath, 'Download a file'),
    query: Download,
    mayBeOpen: true,
  },
  downloadAuthenticated: {
    ...bytes('GET', 'object/authenticated/{bucket}/{path}', AtPath, 'Download a file with a credential'),
    query: Download,
  },
  downloadPublic: {
    ...bytes('GET', 'object/public/{bucket}/{path}', AtPath, 'Download a file of a public bucket'),
    ...open,
    query: Download,
  },
  downloadSigned: {
    ...bytes('GET', 'object/sign/{bucket}/{path}', AtPath, 'Download a file with a signed URL'),
    ...open,
    query: Download,
  },
  info: {
    ...bytes('GET', 'object/info/{bucket}/{path}', AtPath, 'Read the metadata of a file'),
    mayBeOpen: true,
  },
  infoPublic: {
    ...bytes('GET', 'object/info/public/{bucket}/{path}', AtPath, 'Read the metadata of a public file'),
    ...open,
  },
  infoAuthenticated: bytes(
    'GET',
    'object/info/authenticated/{bucket}/{path}',
    AtPath,
    'Read the metadata of a file with a credential',
  ),
  remove: at('DELETE', 'object/{bucket}/{path}', AtPath, Message, 'Delete a file'),
  removeMany: {
    ...at('DELETE', 'object/{bucket}', InBucket, Type.Array(StoredObject), 'Delete several files by name'),
    body: Type.Object({ prefixes: Type.Array(Type.String(), { minItems: 1, maxItems: 1000 }) }),
  },
  list: {
    ...at(
      'POST',
      'object/list/{bucket}',
      InBucket,
      Type.Array(Type.Unknown({ description: 'A file, or a folder, whose id is null.' })),
      'List one folder of a bucket',
    ),
    body: Type.Object({
      prefix: Type.Optional(Type.String()),
      limit: Type.Optional(Type.Integer({ minimum: 1 })),
      offset: Type.Optional(Type.Integer({ minimum: 0 })),
      search: Type.Optional(Nullable(Type.String())),
      sortBy: Type.Optional(Nullable(SortBy)),
    }),
  },
  listV2: {
    ...at(
      'POST',
      'object/list-v2/{bucket}',
      InBucket,
      Type.Object({
        hasNext: Type.Boolean(),
        folders: Type.Array(Type.Unknown()),
        objects: Type.Array(Type.Unknown()),
        nextCursor: Type.Optional(Type.String()),
      }),
      'List a bucket page by page',
    ),
    body: Type.Object({
      prefix: Type.Optional(Type.String()),
      limit: Type.Optional(Type.Integer({ minimum: 1 })),
      cursor: Type.Optional(Nullable(Type.String())),
      with_delimiter: Type.Optional(Type.Boolean()),
      sortBy: Type.Optional(Nullable(SortBy)),
    }),
  },
  move: {
    needsSpace: 'database',
    ...at(
      'POST',
      'object/move',
      InProject,
      Type.Object({ message: Type.String(), Id: Type.String(), Key: Type.String() }),
      'Move a file, optionally to another bucket',
    ),
    body: MoveOrCopy,
  },
  copy: {
    needsSpace: 'database',
    ...at(
      'POST',
      'object/copy',
      InProject,
      Type.Object({ Id: Type.String(), Key: Type.String() }, { additionalProperties: true }),
      'Copy a file, optionally to another bucket',
    ),
    body: MoveOrCopy,
  },
  sign: {
    ...at(
      'POST',
      'object/sign/{bucket}/{path}',
      AtPath,
      Type.Object({ signedURL: Type.String() }),
      'Create a signed URL that downloads the file until it expires',
    ),
    body: Type.Object({
      expiresIn: Type.Optional(Seconds),
      expires_in: Type.Optional(Seconds),
      transform: Type.Optional(Nullable(Transform)),
    }),
  },
  signMany: {
    ...at(
      'POST',
      'object/sign/{bucket}',
      InBucket,
      Type.Array(
        Type.Object({
          error: Nullable(Type.String()),
          path: Type.String(),
          signedURL: Nullable(Type.String()),
        }),
      ),
      'Create signed URLs for several files',
    ),
    body: Type.Object({
      expiresIn: Type.Optional(Seconds),
      expires_in: Type.Optional(Seconds),
      paths: Type.Array(Type.String(), { minItems: 1, maxItems: 1000 }),
    }),
  },
  signUpload: at(
    'POST',
    'object/upload/sign/{bucket}/{path}',
    AtPath,
    Type.Object({ url: Type.String(), token: Type.String() }),
    'Create a signed URL for the upload of one file',
  ),
  uploadSigned: {
    needsSpace: 'database',
    ...bytes('PUT', 'object/upload/sign/{bucket}/{path}', AtPath, 'Upload to a signed URL'),
    ...open,
    query: Type.Object({ token: text }),
  },

  renderAuthenticated: {
    ...bytes('GET', 'render/image/authenticated/{bucket}/{path}', AtPath, 'Download a transformed image'),
    query: Render,
  },
  renderPublic: {
    ...bytes('GET', 'render/image/public/{bucket}/{path}', AtPath, 'Download a transformed public image'),
    ...open,
    query: Render,
  },
  renderSigned: {
    ...bytes(
      'GET',
      'render/image/sign/{bucket}/{path}',
      AtPath,
      'Download a transformed image with a signed URL',
    ),
    ...open,
    query: Render,
  },
  purgeBucket: {
    ...at('DELETE', 'cdn/{bucket}', InBucket, Message, 'Delete the cached rendered images of a bucket'),
    allow: ['service_role'],
  },
  purgeObject: {
    ...at('DELETE', 'cdn/{bucket}/{path}', AtPath, Message, 'Delete the cached rendered images of a file'),
    allow: ['service_role'],
  },

  resumable: {
    ...bytes('OPTIONS', 'upload/resumable', InProject, 'Read the supported parts of TUS 1.0.0'),
    ...open,
  },
  createUpload: {
    ...bytes('POST', 'upload/resumable', InProject, 'Start a resumable upload'),
    needsSpace: 'database',
  },
  readUpload: bytes('HEAD', 'upload/resumable/{upload_id}', OfUpload, 'Read the offset of an upload'),
  appendUpload: {
    ...bytes('PATCH', 'upload/resumable/{upload_id}', OfUpload, 'Continue a resumable upload'),
    needsSpace: 'database',
  },
  overrideUpload: {
    ...bytes(
      'POST',
      'upload/resumable/{upload_id}',
      OfUpload,
      'PATCH, DELETE or HEAD of an upload, named in X-HTTP-Method-Override',
    ),
    needsSpace: 'database',
  },
  deleteUpload: bytes('DELETE', 'upload/resumable/{upload_id}', OfUpload, 'Cancel a resumable upload'),
  resumableSigned: {
    ...bytes('OPTIONS', 'upload/resumable/sign', InProject, 'Read the supported parts of TUS 1.0.0'),
    ...open,
  },
  createSignedUpload: {
    needsSpace: 'database',
    ...bytes('POST', 'upload/resumable/sign', InProject, 'Start an upload with a token in x-signature'),
    ...open,
  },
  readSignedUpload: {
    ...bytes('HEAD', 'upload/resumable/sign/{upload_id}', OfUpload, 'Read the offset of a signed upload'),
    ...open,
  },
  appendSignedUpload: {
    needsSpace: 'database',
    ...bytes('PATCH', 'upload/resumable/sign/{upload_id}', OfUpload, 'Continue a signed upload'),
    ...open,
  },
  overrideSignedUpload: {
    needsSpace: 'database',
    ...bytes(
      'POST',
      'upload/resumable/sign/{upload_id}',
      OfUpload,
      'PATCH, DELETE or HEAD of a signed upload, named in X-HTTP-Method-Override',
    ),
    ...open,
  },
  deleteSignedUpload: {
    ...bytes('DELETE', 'upload/resumable/sign/{upload_id}', OfUpload, 'Cancel a signed upload'),
    ...open,
  },
} as const satisfies Routes
