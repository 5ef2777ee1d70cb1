"""The tables of rocpd and rpd that are read, as their tools create them, shortened to the columns that matter.

ROCm/rocm-systems, projects/rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd/ (3.x, 4.0, 4.1); ROCm/rocmProfileData,
rocpd_python/rocpd/schema_data/tableSchema.cmd.
"""

from __future__ import annotations

_COMMON = """
CREATE TABLE "rocpd_metadata{id}" ("id" INTEGER PRIMARY KEY, "tag" TEXT NOT NULL, "value" TEXT NOT NULL);
CREATE TABLE `rocpd_string{id}` ("id" INTEGER PRIMARY KEY, "guid" TEXT DEFAULT "g" NOT NULL, "string" TEXT NOT NULL);
CREATE TABLE `rocpd_info_agent{id}` ("id" INTEGER PRIMARY KEY, "guid" TEXT DEFAULT "g" NOT NULL, "type" TEXT,
 "absolute_index" INTEGER, "logical_index" INTEGER, "type_index" INTEGER, "name" TEXT, "model_name" TEXT,
 "product_name" TEXT);
CREATE TABLE `rocpd_info_kernel_symbol{id}` ("id" INTEGER PRIMARY KEY, "kernel_name" TEXT, "display_name" TEXT);
CREATE TABLE `rocpd_track{id}` ("id" INTEGER PRIMARY KEY, "nid" INTEGER, "pid" INTEGER, "tid" INTEGER, "name_id" INTEGER
 {track});
CREATE TABLE `rocpd_event{id}` ("id" INTEGER PRIMARY KEY, "category_id" INTEGER, "stack_id" INTEGER,
 "parent_stack_id" INTEGER, "correlation_id" INTEGER, "extdata" JSONB DEFAULT "{{}}" NOT NULL);
CREATE TABLE `rocpd_region{id}` ("id" INTEGER PRIMARY KEY, {where}, {times}, "name_id" INTEGER, "event_id" INTEGER);
CREATE TABLE `rocpd_kernel_dispatch{id}` ("id" INTEGER PRIMARY KEY, {where}, {device} "kernel_id" INTEGER,
 "dispatch_id" INTEGER, {times}, "workgroup_size_x" INTEGER, "workgroup_size_y" INTEGER, "workgroup_size_z" INTEGER,
 "grid_size_x" INTEGER, "grid_size_y" INTEGER, "grid_size_z" INTEGER, "event_id" INTEGER);
CREATE TABLE `rocpd_memory_copy{id}` ("id" INTEGER PRIMARY KEY, {where}, {times}, "name_id" INTEGER,
 "dst_agent_id" INTEGER, "src_agent_id" INTEGER, "size" INTEGER, {stream} "event_id" INTEGER);
INSERT INTO `rocpd_string{id}` ("id", "string") VALUES (1, 'KERNEL_DISPATCH'), (2, 'HIP_RUNTIME_API_EXT'),
 (3, 'MARKER_CORE_RANGE_API'), (4, 'hipLaunchKernel'), (5, 'roctxThreadRangeA'), (6, 'MEMORY_COPY_HOST_TO_DEVICE'),
 (7, 'HSA_CORE_API'), (8, 'hsa_init');
INSERT INTO `rocpd_info_agent{id}` VALUES (0, 'g', 'CPU', 0, 0, 0, 'EPYC', '', 'AMD EPYC'),
 (4, 'g', 'GPU', 4, 1, 0, 'gfx942', '', 'AMD Instinct MI300X');
INSERT INTO `rocpd_info_kernel_symbol{id}` VALUES (1, '_Z4gemmv.kd', 'gemm()'), (2, 'norm.kd', 'norm');
"""

_EVENTS = """
INSERT INTO `rocpd_event{id}` ("id", "category_id", "stack_id", "extdata") VALUES (1, {hip}, 51, '{{}}'),
 (2, {kernel}, 51, '{{}}'), (3, {marker}, 60, '{{"message": "prefill \\"1\\""}}'), (4, {kernel}, 52, '{{}}'),
 (5, {kernel}, 53, '{{}}'), (6, {hsa}, 54, '{{}}');
"""

V3 = (
    _COMMON.replace("{where}", '"nid" INTEGER, "pid" INTEGER, "tid" INTEGER')
    .replace("{times}", '"start" BIGINT, "end" BIGINT')
    .replace("{track}", "")
    .replace("{device}", '"agent_id" INTEGER, "queue_id" INTEGER, "stream_id" INTEGER,')
    .replace("{stream}", '"stream_id" INTEGER,')
    + _EVENTS.replace("{hip}", "2").replace("{kernel}", "1").replace("{marker}", "3").replace("{hsa}", "7")
    + """
INSERT INTO `rocpd_region{id}` VALUES (1, 1, 11, 7, 10, 20, 4, 1), (2, 1, 11, 7, 5, 45, 5, 3),
 (3, 1, 11, 7, 1, 2, 8, 6);
INSERT INTO `rocpd_kernel_dispatch{id}` VALUES (1, 1, 11, 7, 4, 3, 5, 1, 1, 100, 150, 256, 1, 1, 1000, 4, 1, 2),
 (2, 1, 11, 7, 4, 3, 5, 2, 2, 160, 190, 64, 1, 1, 64, 1, 1, 4);
INSERT INTO `rocpd_memory_copy{id}` VALUES (1, 1, 11, 7, 30, 34, 6, 4, 0, 4096, 5, 5);
"""
)

_V4 = (
    _COMMON.replace("{where}", '"track_id" INTEGER')
    .replace("{track}", ', "agent_id" INTEGER, "queue_id" INTEGER, "stream_id" INTEGER')
    .replace("{device}", "")
    .replace("{stream}", "")
    + """
CREATE TABLE `rocpd_info_category{id}` ("id" INTEGER PRIMARY KEY, "name" TEXT NOT NULL);
INSERT INTO `rocpd_info_category{id}` VALUES (21, 'HIP_RUNTIME_API_EXT'), (22, 'KERNEL_DISPATCH'),
 (23, 'MARKER_CORE_RANGE_API'), (24, 'HSA_CORE_API');
INSERT INTO `rocpd_track{id}` VALUES (1, 1, 11, 7, NULL, 4, 3, 5);
"""
    + _EVENTS.replace("{hip}", "21").replace("{kernel}", "22").replace("{marker}", "23").replace("{hsa}", "24")
)

V40 = (
    _V4.replace("{times}", '"start_id" INTEGER, "end_id" INTEGER')
    + """
CREATE TABLE `rocpd_timestamp{id}` ("id" INTEGER PRIMARY KEY, "value" BIGINT NOT NULL, "track_id" INTEGER);
INSERT INTO `rocpd_timestamp{id}` ("id", "value") VALUES (1, 10), (2, 20), (3, 5), (4, 45), (5, 100), (6, 150),
 (7, 160), (8, 190), (9, 30), (10, 34), (11, 1), (12, 2);
INSERT INTO `rocpd_region{id}` VALUES (1, 1, 1, 2, 4, 1), (2, 1, 3, 4, 5, 3), (3, 1, 11, 12, 8, 6);
INSERT INTO `rocpd_kernel_dispatch{id}` VALUES (1, 1, 1, 1, 5, 6, 256, 1, 1, 1000, 4, 1, 2),
 (2, 1, 2, 2, 7, 8, 64, 1, 1, 64, 1, 1, 4);
INSERT INTO `rocpd_memory_copy{id}` VALUES (1, 1, 9, 10, 6, 4, 0, 4096, 5);
"""
)

V41 = (
    _V4.replace("{times}", '"start" BIGINT, "end" BIGINT')
    + """
INSERT INTO `rocpd_region{id}` VALUES (1, 1, 10, 20, 4, 1), (2, 1, 5, 45, 5, 3), (3, 1, 1, 2, 8, 6);
INSERT INTO `rocpd_kernel_dispatch{id}` VALUES (1, 1, 1, 1, 100, 150, 256, 1, 1, 1000, 4, 1, 2),
 (2, 1, 2, 2, 160, 190, 64, 1, 1, 64, 1, 1, 4);
INSERT INTO `rocpd_memory_copy{id}` VALUES (1, 1, 30, 34, 6, 4, 0, 4096, 5);
"""
)

RPD = """
CREATE TABLE "rocpd_metadata" ("id" integer NOT NULL PRIMARY KEY, "tag" varchar(4096), "value" varchar(4096));
CREATE TABLE "rocpd_string" ("id" integer NOT NULL PRIMARY KEY, "string" varchar(4096) NOT NULL);
{ustring}
CREATE TABLE "rocpd_api" ("id" integer NOT NULL PRIMARY KEY, "pid" integer, "tid" integer, "start" integer,
 "end" integer, "apiName_id" integer, "args_id" integer);
CREATE TABLE "rocpd_copyapi" ("api_ptr_id" integer NOT NULL PRIMARY KEY, "stream" varchar(18), "size" integer);
CREATE TABLE "rocpd_kernelapi" ("api_ptr_id" integer NOT NULL PRIMARY KEY, "stream" varchar(18), "gridX" integer,
 "gridY" integer, "gridZ" integer, "workgroupX" integer, "workgroupY" integer, "workgroupZ" integer);
CREATE TABLE "rocpd_op" ("id" integer NOT NULL PRIMARY KEY, "gpuId" integer, "queueId" integer, "sequenceId" integer,
 "start" integer, "end" integer, "description_id" integer, "opType_id" integer);
CREATE TABLE "rocpd_api_ops" ("id" integer NOT NULL PRIMARY KEY, "api_id" integer, "op_id" integer);
CREATE TABLE "rocpd_monitor" ("id" integer NOT NULL PRIMARY KEY, "deviceType" varchar(16), "deviceId" integer,
 "monitorType" varchar(16), "start" integer, "end" integer, "value" varchar(255));
INSERT INTO "rocpd_string" VALUES (1, ''), (2, 'KernelExecution'), (3, 'Task'), (4, 'CopyHostToDevice'), (5, 'gemm'),
 (6, 'norm'), (7, 'hipLaunchKernel'), (8, 'hipGraphLaunch'), (9, 'hipMemcpyAsync'), (10, 'UserMarker'),
 (11, 'hipExtModuleLaunchKernel'), (12, 'Barrier'), (13, 'FillBuffer');
INSERT INTO {texts} VALUES (101, 'decode'), (102, 'aten::mm');
INSERT INTO "rocpd_api" VALUES (1, 11, 7, 10, 20, 7, 1), (2, 11, 7, 30, 40, 8, 1), (3, 11, 8, 50, 60, 9, 1),
 (4, 11, 7, 5, 70, 10, 101), (5, 11, 7, 6, 9, 10, 102), (6, 11, 7, 6, 6, 10, 101), (7, 11, 7, 21, 25, 11, 1);
INSERT INTO "rocpd_copyapi" VALUES (3, '0x0', 4096);
INSERT INTO "rocpd_kernelapi" VALUES (1, '0x0', 5, 2, 1, 256, 1, 1), (7, '0x0', 1792, 3, 1, 256, 1, 1);
INSERT INTO "rocpd_op" VALUES (1, 2, 0, 0, 100, 150, 5, 2), (2, 2, 1, 0, 160, 190, 6, 3), (3, 2, 1, 0, 190, 200, 5, 3),
 (4, 2, 0, 0, 90, 95, 1, 4), (5, 2, 0, 0, 210, 220, 5, 2), (6, 2, 0, 0, 1, 2, 1, 12), (7, 2, 0, 0, 96, 97, 1, 13);
INSERT INTO "rocpd_api_ops" VALUES (1, 1, 1), (2, 2, 2), (3, 2, 3), (4, 3, 4), (5, 7, 5);
INSERT INTO "rocpd_monitor" VALUES (1, 'gpu', 2, 'sclk', 100, 110, '1450'), (2, 'gpu', 2, 'power', 100, 110, '9');
"""
