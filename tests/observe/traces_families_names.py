"""Real kernel names, by the family that an engineer would put them in; where each comes from is said beside it."""

NAMES: dict[str, tuple[str, ...]] = {
    "communication": (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",  # NCCL
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",  # RCCL
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",  # vLLM
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",  # PyTorch symm mem
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
        "(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, true>",  # fused with RMSNorm
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)",  # DeepEP
        "void deep_ep::internode_ll::combine<false, 7168, 9>(void*)",
        "void dpsk::ep::internode::cached_notify<false>()",
        "gloo:all_reduce",
        "c10d::allreduce_",
    ),
    "moe": (
        "fused_moe_kernel",  # vLLM and SGLang, Triton
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",  # triton_kernels
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_clmp_swiGlu_dynBatch_sm100f",  # trtllm-gen
        "void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, 32, int>(float const*)",
        "void vllm::moe::moe_align_block_size_kernel<int>(int const*)",
        "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal<"
        "cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>>>>",
        "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_t>>",
        "_ZN5aiter45fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256E",  # aiter
        "void topk_moe_cuda<128, true>(float const*)",  # llama.cpp
        "kernel_mul_mv_id_q4_K_f32",  # llama.cpp, Metal
        "affine_gather_qmv_fast_bfloat16_t_gs_64_b_4",  # MLX
    ),
    "kv_write": (
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>",
        "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>",
        "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>(StoreKVCacheParams)",  # SGLang
        "void flashinfer::AppendPagedKVCacheKernel<128u, 8u, __nv_bfloat16, int>",
        "void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, 128, true>",
        "void k_set_rows<float, __half>(float const*)",  # llama.cpp
        "_C::cpu_attn_reshape_and_cache",  # vLLM on a CPU
        "vllm::unified_kv_cache_update",
    ),
    "attention": (
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false>>",  # FlashAttention 2
        "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<1, 64>>",
        "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u, __nv_bfloat16>",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",  # trtllm-gen
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16>",  # ROCm
        "kernel_unified_attention_3d",
        "reduce_segments",
        "_fwd_grouped_kernel_stage1",  # SGLang, Triton
        "_ZN5aiter44mla_a16w16_bf16_m16_n16_1tg_4w_64mx1_16nx1E",
        "_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelE",
        "void flash_attn_ext_vec<128, 1, (ggml_type)1, (ggml_type)1, false>",  # llama.cpp
        "void soft_max_f32<true, 0, 0, float>(float const*)",
        "void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<unsigned short, 128>",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x128x128_4x1x1_kernel0_0",
        "sdpa_vector_bfloat16_t_128_128",  # MLX
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "_C::cpu_attention_with_kv_cache",
        "void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128, 16, 1>>",  # Mamba
        "_causal_conv1d_update_kernel",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",  # Qwen3-Next
        "void ssm_scan_f32<128ull, 256>(float const*)",
    ),
    "rope": (
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedHeadParallelismKernel<true, 128u>",
        "void rope_norm<true, false, float>(float const*)",  # llama.cpp
        "void rope_neox<true, false, float>(float const*)",
        "void fused_qk_norm_rope<128>(void*)",
    ),
    "norm": (
        "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
        "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>",
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
        "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassE",
        "void rms_norm_f32<1024, true, false>(float const*)",  # llama.cpp
        "void tensorrt_llm::kernels::generalRmsNorm<__nv_bfloat16>",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0",
        "aten::rsqrt",
        "rms_loopedbfloat16",  # MLX
    ),
    "activation": (
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>",
        "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
        "void unary_gated_op_kernel<&op_silu, float>(float const*)",  # llama.cpp
        "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>",
        "triton_poi_fused_mul_silu_1",
        "aten::silu",
    ),
    "gemv": (
        "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, cublasGemvParamsEx<int>>",
        "enable_if<!T7, void>::type kernel<int, int, __nv_bfloat16, cublasGemvParamsEx<int>>",  # Nsight Compute
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>",
        "void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>(int)",  # ROCm
        "void mul_mat_vec_q<(ggml_type)12, 1, false, false>(void const*)",  # llama.cpp
        "kernel_mul_mv_q4_K_f32",
        "affine_qmv_fast_bfloat16_t_gs_64_b_4_batch_0",  # MLX
    ),
    "gemm": (
        "nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT",  # cuBLAS
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_execute_kernel__5x_cublas",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)",
        "void Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(Params)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16>",
        "void gemmk1_kernel<int, float, 256, 5, true, cublasGemvTensorStridedBatched<float const>>",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN_LDSB1",  # hipBLASLt
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 2048u, 1u, 128u>",
        "void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256, 1, 8, 8>",
        "_w8a8_block_fp8_matmul",
        "void mul_mat_q<(ggml_type)12, 128, true>(char const*)",  # llama.cpp
        "affine_qmm_t_bfloat16_t_gs_64_b_4_alN_true_batch_0",  # MLX
        "aten::mm",
        "aten::addmm",
        "_C::onednn_mm",
    ),
    "sampling": (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>",
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>",
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>",
        "void at_cuda_detail::cub::DeviceSegmentedRadixSortKernel<>",
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>",
        "aten::argmax",
        "_C::greedy_argmax",
    ),
    "quantisation": (
        "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>",
        "void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)2, "
        "__nv_bfloat16, 32, true>(int, flashinfer::QuantizationSFLayout)",
        "_per_token_group_quant_8bit",
        "void quantize_q8_1(float const*)",  # llama.cpp
        "void dequantize_block_q4_K<__half>(void const*)",
        "void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>",
    ),
    "copy": (
        "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy>>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<>",
        "void at::native::vectorized_gather_kernel<16, long>(char*)",
        "triton_poi_fused__to_copy_1",
        "__amd_rocclr_copyBuffer",
        "void k_get_rows_float<float, float>(float const*)",  # llama.cpp
        "void at::native::(anonymous namespace)::upsample_gen2d_aa_out_frame<float>",
        "aten::cat",
    ),
    "other": ("add_one(const float *, float *, int)", "my_own_kernel", "", "properties"),
}
